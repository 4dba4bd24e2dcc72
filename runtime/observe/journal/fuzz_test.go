package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzRead: whatever is in a journal's file, reading it ends, returns only clean text, and writing goes on behind it with a chain that holds.
func FuzzRead(f *testing.F) {
	f.Add([]byte(""), []byte("x"))
	f.Add([]byte(`{"v":1,"seq":1,"time":"","jail":"box","kind":JailStart,"prev":""}`+"\n"), []byte(`{"v":1,"seq":2,"kind":JailExit,"prev":"00"}`))
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
		if err := l.Append(Event{Kind: JailStart}, Event{Kind: JailExit}); err != nil {
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

// FuzzDecode: a line is an event of a known kind, or is left out, and what is shown of it is bounded and clean.
func FuzzDecode(f *testing.F) {
	for _, line := range []string{
		`{"v":1,"seq":1,"kind":"jail.start","prev":""}`, `{"v":2,"seq":7,"kind":"jail.started","ring":"x"}`, `{"seq":1,"kind":5}`, `{"seq":-1}`, `[]`, `{"seq":3,"kind":""}`,
		`{"v":1,"seq":2,"kind":"jail.used","detail":{"pidsPeak":3,"layer":{"bytes":1}}}`, `{"v":1,"seq":2,"kind":"git.stale","detail":{"files":["a\u202e"],"total":-1}}`,
		`{"v":1,"seq":2,"kind":"jail.teardown","detail":{"gone":[{"kind":"mount","what":"/x"}]}}`, `{"v":1,"seq":2,"kind":"jail.inspected","detail":{"rings":[{},{"missing":["x"]},{}, 4]}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, ok := decode(line)
		if !ok {
			return
		}
		if e.Seq == 0 {
			t.Errorf("an event without a number: %+v", e)
		}
		e.Clean()
		if strings.ContainsAny(e.String(), "\n\x1b\u202e\x00") {
			t.Errorf("%q", e.String())
		}
		if again, err := e.line(); err == nil {
			if back, ok := decode(again); !ok || back.Kind != e.Kind || back.Seq != e.Seq {
				t.Errorf("%q becomes %+v", again, back)
			}
		}
	})
}
