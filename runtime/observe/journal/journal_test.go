package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func newLog(t *testing.T, max int64) *Log {
	t.Helper()
	return &Log{Path: NewPath(filepath.Join(t.TempDir(), "logs"), "0123abcd-box", time.Now()), Jail: "box", Key: "0123abcd-box", Max: max}
}

func whole(t *testing.T, l *Log) *Result {
	t.Helper()
	r, err := Verify(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Whole() {
		t.Errorf("problems: %q", r.Problems)
	}
	return r
}

// TestKinds: every kind can be written, and reports what OCSF requests.
func TestKinds(t *testing.T) {
	l := newLog(t, 0)
	var events []Event
	for _, kind := range Kinds() {
		k := kind.Info()
		if found, ok := Lookup(k.Name); !ok || found != kind {
			t.Errorf("%s is named twice", k.Name)
		}
		if k.Meaning == "" || len(k.Sources) == 0 || k.Class == 0 || k.Activity == 0 || k.Disposition == 0 || k.Severity == 0 || k.Verdict == "" {
			t.Errorf("%s: incomplete", k.Name)
		}
		events = append(events, Event{Kind: kind, Name: "example.com", Port: 443, Path: "/p", Target: "t", Credential: "c"})
	}
	if err := l.Begin(events...); err != nil {
		t.Fatal(err)
	}
	got, err := Read(l.Path)
	if err != nil || len(got) != len(Kinds()) {
		t.Fatalf("%d events, %v", len(got), err)
	}
	for i, e := range got {
		if k := Kinds()[i]; e.Kind != k || e.Class != k.Info().Class || e.Jail != "box" || strings.Contains(e.Remedy, "{") || e.When().IsZero() {
			t.Errorf("%+v", e)
		}
	}
	if r := whole(t, l); r.Events != uint64(len(Kinds())) || len(r.Torn) > 0 {
		t.Errorf("%+v", r)
	}
	for _, kind := range []Kind{0, Kind(len(kinds)), 255} {
		if err := l.Append(Event{Kind: kind}); err == nil {
			t.Errorf("the kind %d is written", kind)
		}
	}
}

// TestEncode: a line is what encoding/json makes of the event.
func TestEncode(t *testing.T) {
	e := Event{}
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(fmt.Sprintf("a \"%d\" \\ é", i))
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x", fmt.Sprint(i), "\""}))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Interface:
			f.Set(reflect.ValueOf(Created{Name: "a \"b\" <c>", Writable: []string{"/x"}}))
		case reflect.Uint8:
			f.SetUint(uint64(JailStart))
		case reflect.Uint64, reflect.Uint16:
			f.SetUint(uint64(i) + 1)
		default:
			f.SetInt(int64(i) + 1)
		}
	}
	for _, e := range []Event{e, {}} {
		var b bytes.Buffer
		out := json.NewEncoder(&b)
		out.SetEscapeHTML(false)
		err := out.Encode(e)
		want := strings.TrimSuffix(b.String(), "\n")
		if got := e.encode(nil); err != nil || string(got) != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	e.Kind = JailCreate
	if back, ok := decode(e.encode(nil)); !ok || !reflect.DeepEqual(back, e) {
		t.Errorf("%+v\nbecomes\n%+v", e, back)
	}
	if seqOf(e.encode(nil)) != e.Seq {
		t.Error("its number is not found")
	}
}

// BenchmarkAppend is what one event costs.
func BenchmarkAppend(b *testing.B) {
	l := &Log{Path: NewPath(b.TempDir(), "0123abcd-box", time.Now()), Jail: "box", Key: "0123abcd-box"}
	if err := l.Begin(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := l.Append(Event{Kind: JailStart, Pid: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestWriters: several writers at a time, across rotations, leave one chain.
func TestWriters(t *testing.T) {
	l := newLog(t, 60<<10)
	if err := l.Begin(Event{Kind: JailCreate}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 100 {
				if err := l.Append(Event{Kind: NameRefused, Name: fmt.Sprintf("%d.%d.example", i, n)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r := whole(t, l)
	if r.First != 1 || r.Last != 801 || len(r.Gaps) != 1 || len(r.Torn) > 0 {
		t.Errorf("%+v", r)
	}
	var size int64
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(l.Path), "*"))
	for _, f := range files {
		fi, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if size += fi.Size(); fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", f, fi.Mode())
		}
	}
	if len(files) != 3 || size > l.Max {
		t.Errorf("%d files with %d bytes", len(files), size)
	}
	if events, err := Read(l.Path); err != nil || events[0].Kind != JailCreate {
		t.Errorf("the beginning is gone: %v", err)
	}
}

// TestTampering: what was changed, taken out or cut short is found.
func TestTampering(t *testing.T) {
	for _, c := range []struct {
		name           string
		change         func(string) string
		problems, torn int
	}{
		{"nothing", func(s string) string { return s }, 0, 0},
		{"a word", func(s string) string { return strings.Replace(s, "b.example", "x.example", 1) }, 1, 0},
		{"a line out", func(s string) string {
			lines := strings.SplitAfter(s, "\n")
			return strings.Join(append(lines[:1:1], lines[2:]...), "")
		}, 1, 0},
		{"a line in", func(s string) string { return "{\"v\":1,\"seq\":1,\"kind\":\"jail.create\",\"prev\":\"\"}\n" + s }, 1, 0},
		{"cut short", func(s string) string { return s[:len(s)-20] }, 0, 1},
		{"zeros", func(s string) string { return s + strings.Repeat("\x00", 3*maxLine) }, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLog(t, 0)
			err := l.Begin(Event{Kind: JailCreate}, Event{Kind: NameRefused, Name: "b.example"}, Event{Kind: JailStart})
			if err != nil {
				t.Fatal(err)
			}
			data, _ := os.ReadFile(l.Path)
			if err := os.WriteFile(l.Path, []byte(c.change(string(data))), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // also when writing goes on
				r, err := Verify(l.Path)
				if err != nil || len(r.Problems) != c.problems || len(r.Torn) != c.torn {
					t.Errorf("%+v, %v", r, err)
				}
				if err := l.Append(Event{Kind: JailExit}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestInjection: text of a jail's makes no line of its own and no escape.
func TestInjection(t *testing.T) {
	l := newLog(t, 0)
	evil := "x\n{\"seq\":2,\"kind\":\"jail.delete\"}\n\x1b[2J\u202e" + strings.Repeat("y", 1<<20)
	argv := make([]string, 10000)
	for i := range argv {
		argv[i] = evil
	}
	e := Event{Kind: ProcessExec, Argv: argv, Cwd: evil, Program: evil, Path: evil, Name: evil, Target: evil, Reason: evil, Remedy: evil, Rule: evil, Parent: evil}
	if err := l.Begin(e); err != nil {
		t.Fatal(err)
	}
	if argv[0] != evil {
		t.Error("the caller's event was changed")
	}
	data, _ := os.ReadFile(l.Path)
	if strings.Count(string(data), "\n") != 1 || len(data) > maxLine+1 || strings.ContainsAny(string(data), "\x1b\u202e") {
		t.Errorf("%d bytes: %.200q", len(data), data)
	}
	events, err := Read(l.Path)
	if err != nil || len(events) != 1 {
		t.Fatal(err)
	}
	if s := events[0].String(); strings.ContainsAny(s, "\n\x1b\u202e") {
		t.Errorf("%.200q", s)
	}
	whole(t, l)
}

// TestUnknownLines: a line that cannot be decoded, of another version for example, is shown as unknown; the chain holds, and what follows it is read.
func TestUnknownLines(t *testing.T) {
	for _, other := range []string{`"jail.start"`, `"jail.paused"`, `5`, `{"a":"\u202e"}`} {
		l := newLog(t, 0)
		if err := l.Begin(Event{Kind: JailCreate}, Event{Kind: JailStart}); err != nil {
			t.Fatal(err)
		}
		data, _ := os.ReadFile(l.Path)
		if err := os.WriteFile(l.Path, []byte(strings.Replace(string(data), `"jail.start"`, other, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		follow := Follow(l.Path, false)
		if err := l.Append(Event{Kind: JailExit}); err != nil {
			t.Fatal(err)
		}
		want := []Kind{JailCreate, JournalUnknown, JailExit}
		if other == `"jail.start"` {
			want[1] = JailStart
		}
		read, err := Read(l.Path)
		followed, ferr := follow.Next()
		follow.Close()
		for _, events := range [][]Event{read, followed} {
			var got []Kind
			for _, e := range events {
				if got = append(got, e.Kind); e.Kind == JournalUnknown && (e.Reason == "" || e.Verdict == "" || e.Jail != "box" || strings.Contains(e.String(), "\u202e")) {
					t.Errorf("%s: %+v", other, e)
				}
			}
			if err != nil || ferr != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v; %v, %v", other, got, want, err, ferr)
			}
		}
		if r := whole(t, l); len(r.Torn) > 0 || r.Events != 3 {
			t.Errorf("%s: %+v", other, r)
		}
	}
}
