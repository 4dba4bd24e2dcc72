package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxTurn bounds what a Tail reads at a time.
const maxTurn = 1 << 20

// A Tail follows a journal that is being written.
type Tail struct {
	path string
	f    *os.File
	at   int64
	seq  uint64
}

// Follow follows a journal: from its beginning, or with fresh only what is written from now on.
func Follow(path string, fresh bool) *Tail {
	t := &Tail{path: path}
	if !fresh {
		return t
	}
	f, err := openFile(path)
	if err != nil {
		return t
	}
	w := &writer{path: path, fd: int(f.Fd())}
	if fi, err := f.Stat(); err == nil {
		w.size = fi.Size()
	}
	_ = w.tail()
	t.f, t.at, t.seq = f, w.size, w.seq
	if w.torn {
		t.at = 0 // a line that is being written: those before it are distinguished by their numbers
	}
	return t
}

// Close closes the file.
func (t *Tail) Close() {
	if t.f != nil {
		t.f.Close()
	}
}

// Next returns what was written since, a part of it where it is much: the next call goes on. A
// journal that is not there has nothing.
func (t *Tail) Next() ([]Event, error) {
	if t.f != nil && t.current() {
		return t.read()
	}
	// It was rotated, or is new: what the file that was followed still had is in the journal's
	// other files.
	t.Close()
	t.f = nil
	f, err := openFile(t.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t.f, t.at = f, 0
	var out []Event
	if _, err = scan(t.path, func(e Event) {
		if e.Seq > t.seq {
			out = append(out, e)
		}
	}); err != nil {
		return nil, err
	}
	return t.returned(out), nil
}

// current reports whether the file that is followed is still the newest.
func (t *Tail) current() bool {
	fi, err := t.f.Stat()
	there, lerr := os.Lstat(t.path)
	return err == nil && lerr == nil && os.SameFile(fi, there)
}

func (t *Tail) read() ([]Event, error) {
	data, err := io.ReadAll(io.NewSectionReader(t.f, t.at, maxTurn))
	if err != nil {
		return nil, err
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 && len(data) > maxLine {
		end = len(data) // no line of ours
	}
	t.at += int64(end)
	var out []Event
	for line := range bytes.Lines(data[:end]) {
		if e, ok := decode(line); ok && e.Seq > t.seq {
			e.Clean()
			out = append(out, e)
		}
	}
	return t.returned(out), nil
}

// returned records how far the journal was read, and adds an event for what of it was missed.
func (t *Tail) returned(out []Event) []Event {
	if len(out) == 0 {
		return nil
	}
	if t.seq > 0 && out[0].Seq > t.seq+1 {
		lost := Event{
			Kind: JournalLost, Time: out[0].Time, Jail: out[0].Jail, Key: out[0].Key, Source: SourceJournal,
			Dropped: out[0].Seq - t.seq - 1,
			Reason:  fmt.Sprintf("events %d to %d were gone before they were read", t.seq+1, out[0].Seq-1),
		}
		_ = lost.Complete()
		out = append([]Event{lost}, out...)
	}
	t.seq = out[len(out)-1].Seq
	return out
}
