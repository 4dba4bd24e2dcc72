package decisions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// seqs are the numbers of events.
func seqs(events []Event) string {
	var out []string
	for _, e := range events {
		out = append(out, fmt.Sprint(e.Seq))
	}
	return strings.Join(out, " ")
}

func next(t *testing.T, r *Reader, want string) {
	t.Helper()
	events, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if got := seqs(events); got != want {
		t.Errorf("read %q, want %q", got, want)
	}
}

// TestRotatedFilesAreFollowed: both files are read in order, and followed across the turns.
func TestRotatedFilesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	if _, err := NewReader(dir); !os.IsNotExist(err) {
		t.Errorf("without a log: %v", err)
	}
	files, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	write := func(i int, text string) {
		t.Helper()
		if _, err := files[i].WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	event := func(seq int) string { return fmt.Sprintf(`{"seq":%d,"time":"at %d","what":"name"}`+"\n", seq, seq) }
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	next(t, r, "")
	write(1, event(1)+event(2))
	write(0, event(3)+event(4)+`{"seq":5,`)
	next(t, r, "1 2 3 4")
	next(t, r, "")
	write(0, `"what":"end"}`+"\n")
	next(t, r, "5")
	// Begun anew, and longer than before.
	if err := files[1].Truncate(0); err != nil {
		t.Fatal(err)
	}
	write(1, event(6)+event(7)+event(8)+event(9))
	next(t, r, "6 7 8 9")
	if turn, seq, err := Last(dir); turn != 1 || seq != 9 || err != nil {
		t.Errorf("it ends at %d in %d, %v", seq, turn, err)
	}
	if err := files[0].Truncate(0); err != nil {
		t.Fatal(err)
	}
	write(0, event(10))
	next(t, r, "10")
	if turn, seq, err := Last(dir); turn != 0 || seq != 10 || err != nil {
		t.Errorf("it ends at %d in %d, %v", seq, turn, err)
	}
}

// TestFilesWithEventsAreKept: beside a journal only files with events are kept, and each of them is read.
func TestFilesWithEventsAreKept(t *testing.T) {
	for turn, name := range LogFiles {
		dir := t.TempDir()
		if _, err := NewReader(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("no log: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"seq":7,"time":"a"}`+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if at, seq, err := Last(dir); at != turn || seq != 7 || err != nil {
			t.Errorf("only %s: %d in %d, %v", name, seq, at, err)
		}
	}
}

// TestForeign: what is no event does not end the reading, and a log of a jail that did not start may have no events.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, LogFiles[0])
	if err := os.WriteFile(filepath.Join(dir, LogFiles[1]), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{\"time\":\"a\"}\n{\"time\":\"b\"}\n\x00\nnull\n"+strings.Repeat("x", 2*maxLine)), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	events, err := r.Next()
	if err != nil || len(events) != 5 || events[0].Time != "a" || events[1].Time != "b" || events[2].Reason == "" || events[4].Reason == "" {
		t.Errorf("%+v, %v", events, err)
	}
	if _, seq, err := Last(dir); seq != 0 || err != nil {
		t.Errorf("it ends at %d, %v", seq, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	if _, err := NewReader(dir); err == nil {
		t.Error("a link is followed")
	}
}
