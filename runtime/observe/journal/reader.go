package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/flock"
)

// maxFile bounds what is read of one file of a journal.
const maxFile = 256 << 20

// A Result is what verification found.
type Result struct {
	Events uint64 `json:"events"`
	// First and Last are the numbers of the first and the last event that are there.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Head is the last line's hash. Stored elsewhere, it shows later whether the end was cut off or
	// written anew.
	Head string `json:"head"`
	// Gaps are what rotation dropped, which is no problem.
	Gaps []string `json:"gaps,omitempty"`
	// Torn are lines that were cut short by a crash: the chain goes on behind them.
	Torn []string `json:"torn,omitempty"`
	// Problems are places at which the chain is broken: something was changed, taken out or put in.
	Problems []string `json:"problems,omitempty"`
}

// Whole reports whether the chain holds.
func (r *Result) Whole() bool { return len(r.Problems) == 0 }

// Read returns all events of a journal in the order in which they were appended.
func Read(path string) ([]Event, error) {
	var out []Event
	_, err := scan(path, func(e Event) { out = append(out, e) })
	return out, err
}

// Verify follows the chain of a journal.
func Verify(path string) (*Result, error) { return scan(path, func(Event) {}) }

// scan reads a journal's files in order.
func scan(path string, each func(Event)) (*Result, error) {
	files, err := openAll(path)
	if err != nil {
		return nil, err
	}
	s := &scanner{each: each}
	for _, f := range files {
		defer f.Close()
	}
	for i, f := range files {
		s.border = i > 0
		if err := s.file(f); err != nil {
			return &s.r, err
		}
	}
	if s.begun {
		s.r.Head = hashLine(s.before)
	}
	return &s.r, nil
}

// openFile opens a file for reading, and follows no link.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// openAll opens a journal's files, the oldest first, at one moment.
func openAll(path string) (files []*os.File, err error) {
	newest, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer newest.Close() // and with it the lock
	if err := flock.Wait(int(newest.Fd()), unix.LOCK_SH); err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(path, suffix)
	for _, s := range []string{firstSuffix, formerSuffix, suffix} {
		f, err := openFile(base + s)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, err
		}
		// A crash in the middle of rotation leaves one file under two names.
		if slices.ContainsFunc(files, func(o *os.File) bool { return sameFile(o, f) }) {
			f.Close()
			continue
		}
		files = append(files, f)
	}
	return files, nil
}

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	y, yerr := b.Stat()
	return err == nil && yerr == nil && os.SameFile(x, y)
}

// A scanner follows lines from file to file.
type scanner struct {
	each func(Event)
	r    Result
	// before and seq are of the line before; begun reports that there was one.
	before []byte
	seq    uint64
	begun  bool
	border bool // the next line is a file's first
}

func (s *scanner) file(f *os.File) error {
	r := bufio.NewReaderSize(io.LimitReader(f, maxFile), 1<<16)
	for n := 1; ; n++ {
		line, err := readLine(r)
		if len(line) > 0 || err == nil {
			s.line(f.Name(), n, bytes.TrimSuffix(line, []byte("\n")), err == nil)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads one line with its end. Of a longer one than any of ours it keeps the last part.
func readLine(r *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		part, err := r.ReadSlice('\n')
		out = append(out, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return out, err
		}
		if len(out) > 4*maxLine {
			out = append(out[:0], out[len(out)-2*maxLine:]...)
		}
	}
}

// maxPlaces bounds the places of each sort.
const maxPlaces = 100

// addPlace adds a place to a list.
func addPlace(list *[]string, file string, n int, what string) {
	switch {
	case len(*list) < maxPlaces:
		*list = append(*list, fmt.Sprintf("%s:%d%s", file, n, what))
	case len(*list) == maxPlaces:
		*list = append(*list, "and more")
	}
}

// line looks at one line; ended reports that it has its end.
func (s *scanner) line(file string, n int, line []byte, ended bool) {
	defer func() { s.before, s.begun, s.border = append(s.before[:0], line...), true, false }()
	e, ok := Event{}, false
	if seqOf(line) > 0 {
		e, ok = decode(line)
	}
	if !ok {
		addPlace(&s.r.Torn, file, n, "")
		return
	}
	prev := ""
	if s.begun {
		prev = hashLine(s.before)
	}
	switch {
	case s.begun && e.Prev == prev && (s.seq == 0 || e.Seq == s.seq+1):
	case !s.begun && e.Seq == 1 && e.Prev == "":
	case s.border && s.begun && e.Seq > s.seq+1:
		s.r.Gaps = append(s.r.Gaps, fmt.Sprintf("%d to %d", s.seq+1, e.Seq-1))
	default:
		addPlace(&s.r.Problems, file, n, fmt.Sprintf(": event %d does not follow the line before it", e.Seq))
	}
	if !ended {
		addPlace(&s.r.Torn, file, n, " (no line end)")
	}
	if s.r.First == 0 {
		s.r.First = e.Seq
	}
	s.r.Events++
	s.r.Last, s.seq = e.Seq, e.Seq
	e.Clean()
	s.each(e)
}
