package journal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// TestPrune: of jails that ended the journals of those that ended last stay, with all their files, and a jail's that exists in any case.
func TestPrune(t *testing.T) {
	dir, store := t.TempDir(), state.Store{Root: filepath.Join(t.TempDir(), "run")}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var paths []string
	for i := range 5 {
		l := &Log{Path: NewPath(dir, fmt.Sprintf("0123abcd-box%d", i), at.Add(time.Duration(i)*time.Second)), Jail: fmt.Sprint("box", i)}
		if err := l.Begin(Event{Kind: JailCreate}); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, l.Path)
	}
	// One of the youngest ended before the others.
	ended := at.Add(-time.Hour)
	if err := os.Chtimes(paths[3], ended, ended); err != nil {
		t.Fatal(err)
	}
	if err := keepFile(KeptDir(paths[1]), KeptFiles[0], []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "of somebody else"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Create(&state.Jail{Brief: state.Brief{ID: "box0", Key: "0123abcd-box0", Journal: paths[0]}}); err != nil {
		t.Fatal(err)
	}
	gone, err := Prune(store, dir, policy.Journal{Keep: 2})
	if err != nil || strings.Join(gone, " ") != "box3@20260101T000003.000000 box1@20260101T000001.000000" {
		t.Errorf("%q, %v", gone, err)
	}
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != 4 || strings.Contains(fmt.Sprint(names), "box1") {
		t.Errorf("left: %q", names)
	}
	p := Place{Store: store, Dir: dir}
	if j, err := p.Open("box0"); err != nil || j.Brief == nil || j.Path != paths[0] {
		t.Errorf("%+v, %v", j, err)
	}
	if j, err := p.Open("box4"); err != nil || j.Brief != nil || j.Path != paths[4] {
		t.Errorf("%+v, %v", j, err)
	}
	if j, err := p.Open("box"); err != nil || j.Path != paths[0] {
		t.Errorf("the beginning of one existing jail's id: %+v, %v", j, err)
	}
	if err := store.Remove("0123abcd-box0"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Open("box"); err == nil || !strings.Contains(err.Error(), "box4@") {
		t.Errorf("the beginning of three ended jails' ids: %v", err)
	}
	if _, err := p.Open("box1"); err == nil {
		t.Error("a journal that was removed is opened")
	}
}

// TestPruneBounds: what ended longest ago goes first by size and by time as well.
func TestPruneBounds(t *testing.T) {
	at := time.Now().Add(-10 * time.Hour)
	for _, c := range []struct {
		p    policy.Journal
		left string
	}{
		{policy.Journal{Keep: 10}, "0 1 2 3 4"},
		{policy.Journal{Keep: 10, KeepFor: policy.Span(7*time.Hour + 30*time.Minute)}, "3 4"},
		{policy.Journal{Keep: 10, KeepSize: 30 << 10}, "2 3 4"},
		{policy.Journal{Keep: 10, KeepSize: 25 << 10}, "3 4"},
		{policy.Journal{Keep: 1, KeepSize: 25 << 10, KeepFor: policy.Span(100 * time.Hour)}, "4"},
		{policy.Journal{Keep: 10, KeepSize: 1}, ""},
		{policy.Journal{}, ""},
	} {
		dir, store := t.TempDir(), state.Store{Root: filepath.Join(t.TempDir(), "run")}
		for i := range 5 {
			born := at.Add(time.Duration(i) * time.Hour)
			path := NewPath(dir, fmt.Sprintf("0123abcd-%d", i), born)
			size := 10 << 10
			if i == 3 { // the most of it in the kept log
				size = 1 << 10
				if err := keepFile(KeptDir(path), KeptFiles[0], make([]byte, 5<<10)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, born, born); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Prune(store, dir, c.p); err != nil {
			t.Fatal(err)
		}
		var left []string
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if key, _, ok := parseName(e.Name()); ok {
				left = append(left, key[len(key)-1:])
			}
		}
		if got := strings.Join(left, " "); got != c.left {
			t.Errorf("%+v leaves %q, not %q", c.p, got, c.left)
		}
	}
}

// TestChangedKeptFileIsFound: a kept file that was changed is found.
func TestChangedKeptFileIsFound(t *testing.T) {
	l, dir := newLog(t, 0), t.TempDir()
	if err := l.Begin(Event{Kind: JailCreate}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, KeptFiles[0]), []byte("a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := Keep(l.Path, dir)
	if err != nil || len(events) != 1 {
		t.Fatalf("%v, %v", events, err)
	}
	if err := l.Append(events...); err != nil {
		t.Fatal(err)
	}
	j := &Jail{Path: l.Path}
	for _, problems := range []int{0, 1} {
		r := whole(t, l)
		if err := j.VerifyKept(r); err != nil || len(r.Problems) != problems {
			t.Errorf("%+v, %v", r, err)
		}
		if err := os.WriteFile(filepath.Join(KeptDir(l.Path), KeptFiles[0]), []byte("another\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCounters: both versions' counters are read, and what is none is not.
func TestCounters(t *testing.T) {
	dir := t.TempDir() // as of version 2
	for name, text := range map[string]string{"memory.events": "low 0\nhigh 3\nmax 7\noom 1\noom_kill 2\n", "pids.events": "max 5\n", "pids.max": "64\n", "memory.max": "1024\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range Counters([]string{dir, dir + "/none"}, true, cgroups.Once()) {
		got = append(got, fmt.Sprintf("%s %d %s", e.Kind, e.Count, e.Limit))
	}
	if want := "limit.oom 2 1024, limit.memory 7 1024, limit.high 3 , limit.pids 5 64"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// killed is the variable that makes of this program a writer which is to be killed.
const killed = "AGENTJAIL_JOURNAL_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(killed); path != "" {
		l := &Log{Path: path, Jail: "box", Max: 60 << 10}
		for i := 0; ; i++ {
			if err := l.Append(Event{Kind: NameRefused, Name: strings.Repeat("n", i%900)}); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}

// TestKilledWriters: writers that are killed at any moment, in the middle of rotation too, leave a journal that goes on.
func TestKilledWriters(t *testing.T) {
	l := newLog(t, 60<<10)
	if err := l.Begin(Event{Kind: JailCreate}); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+i)*time.Millisecond)
		cmd := exec.CommandContext(ctx, "/proc/self/exe")
		cmd.Env = append(os.Environ(), killed+"="+l.Path)
		if out, _ := cmd.CombinedOutput(); len(out) > 0 {
			t.Errorf("a writer: %s", out)
		}
		cancel()
		if err := l.Append(Event{Kind: JailStart}); err != nil {
			t.Fatal(err)
		}
	}
	r := whole(t, l)
	if r.First != 1 || r.Last < 40 {
		t.Errorf("%+v", r)
	}
	t.Logf("%d events, %d cut short", r.Last, len(r.Torn))
}

// TestTail: a journal is followed across rotations, each event once and in order.
func TestTail(t *testing.T) {
	l := newLog(t, 60<<10)
	if err := l.Begin(Event{Kind: JailCreate}); err != nil {
		t.Fatal(err)
	}
	tail, late := Follow(l.Path, false), Follow(l.Path, true)
	defer tail.Close()
	defer late.Close()
	seen := map[*Tail]uint64{late: 1}
	for i := range 600 {
		if err := l.Append(Event{Kind: JailStart}); err != nil {
			t.Fatal(err)
		}
		for _, f := range []*Tail{tail, late} {
			if i%7 != 0 {
				continue
			}
			events, err := f.Next()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.Kind == JournalLost || e.Seq != seen[f]+1 {
					t.Fatalf("event %d after %d: %s", e.Seq, seen[f], e.String())
				}
				seen[f] = e.Seq
			}
		}
	}
	if seen[tail] != seen[late] || seen[tail] < 590 {
		t.Errorf("seen: %d and %d", seen[tail], seen[late])
	}
}
