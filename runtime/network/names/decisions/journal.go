// Package decisions reads the log of decisions of a jail's network by name: two files, which the
// helper fills in turns. It writes one file until that is full, and then truncates the other and
// writes that, so that the files have the end of the log. Each event has a number.
//
// The helper is exposed to a jail, so its files are read with limits.
package decisions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// maxLine bounds an event, and maxRead one read of a file, in bytes.
	maxLine = 64 << 10
	maxRead = 4 << 20
)

// Open opens a jail's log for writing: its files, in the order of LogFiles.
func Open(dir string) (files [len(LogFiles)]*os.File, err error) {
	for i, name := range LogFiles {
		if files[i], err = os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK,
			0o600); err != nil {
			for _, f := range files[:i] {
				f.Close()
			}
			return files, err
		}
	}
	return files, nil
}

// Last returns the end of a log: the index of the file, and the number of the last event.
func Last(dir string) (turn int, seq uint64, err error) {
	r, err := NewReader(dir)
	if err != nil {
		return 0, 0, err
	}
	defer r.Close()
	for _, t := range r.files {
		events, err := t.read()
		if err != nil {
			return 0, 0, err
		}
		for _, e := range events {
			if e.Seq > seq {
				turn, seq = t.turn, e.Seq
			}
		}
	}
	return turn, seq, nil
}

// A Reader reads a log.
type Reader struct{ files []*tail }

// NewReader opens a log. It returns os.ErrNotExist if the jail has none. Either file may be
// missing: beside a journal no empty one is kept.
func NewReader(dir string) (*Reader, error) {
	r := new(Reader)
	for turn, name := range LogFiles {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			r.Close()
			return nil, err
		}
		r.files = append(r.files, &tail{f: f, turn: turn})
	}
	if len(r.files) == 0 {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(dir, LogFiles[0]), Err: unix.ENOENT}
	}
	return r, nil
}

// Close closes the files.
func (r *Reader) Close() {
	for _, t := range r.files {
		t.f.Close()
	}
}

// Next returns the events since the last call, in order. A malformed line becomes an event without
// a verdict that reports the line.
func (r *Reader) Next() ([]Event, error) {
	var out []Event
	for _, t := range r.files {
		events, err := t.read()
		if err != nil {
			return nil, err
		}
		out = append(out, events...)
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return out, nil
}

// tail is one of the files, read up to at.
type tail struct {
	turn  int // its index in LogFiles
	f     *os.File
	at    int64
	first []byte // how it begins, which reports whether it was begun anew
}

// read returns the events that are new. The helper writes whole lines.
func (t *tail) read() ([]Event, error) {
	fi, err := t.f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", t.f.Name())
	}
	first := make([]byte, 256) // the number and the time are among these
	n, err := t.f.ReadAt(first, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if first = first[:n]; fi.Size() < t.at || !bytes.HasPrefix(first, t.first) {
		t.at = 0
	}
	t.first = first
	data, err := io.ReadAll(io.NewSectionReader(t.f, t.at, maxRead))
	if err != nil {
		return nil, err
	}
	var out []Event
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 && len(data) < maxLine {
			return out, nil // nothing, or a line that is being written
		}
		if i < 0 {
			i = len(data) - 1 // no line of the helper's
		}
		var e Event
		if json.Unmarshal(data[:i], &e) != nil {
			e = Event{Reason: "a line of the log that is no event"}
		}
		out = append(out, e)
		t.at += int64(i) + 1
		data = data[i+1:]
	}
}
