package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzRead: whatever is in a journal's file, reading it ends, tells only clean text, and writing goes on behind it with a chain that holds.
func FuzzRead(f *testing.F) {
	f.Add([]byte(""), []byte("x"))
	f.Add([]byte(`{"v":1,"seq":1,"time":"","jail":"box","kind":"jail.start","prev":""}`+"\n"), []byte(`{"v":1,"seq":2,"kind":"jail.exit","prev":"00"}`))
	f.Add([]byte(strings.Repeat("a", 3*maxLine)), []byte("\n\n\x00\n"))
	f.Fuzz(func(t *testing.T, former, newest []byte) {
		path := NewPath(t.TempDir(), "0123abcd-box", time.Unix(0, 0))
		for name, data := range map[string][]byte{path: newest, strings.TrimSuffix(path, suffix) + formerSuffix: former} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before, err := Verify(path)
		if err != nil {
			t.Fatal(err)
		}
		events, err := Read(path)
		if err != nil || uint64(len(events)) != before.Events {
			t.Fatalf("%d events, %v", len(events), err)
		}
		for _, e := range events {
			if strings.ContainsAny(e.String(), "\n\x1b\u202e\x00") {
				t.Errorf("%q", e.String())
			}
		}
		l := &Log{Path: path, Jail: "box", Key: "0123abcd-box"}
		if err := l.Append(Event{Kind: "jail.start"}, Event{Kind: "jail.exit"}); err != nil {
			t.Fatal(err)
		}
		after, err := Verify(path)
		if err != nil || after.Events < before.Events+2 {
			t.Errorf("%+v, then %+v, %v", before, after, err)
		}
		if last, err := os.ReadFile(filepath.Clean(path)); err != nil || last[len(last)-1] != '\n' {
			t.Errorf("the last line has no end, %v", err)
		}
	})
}
