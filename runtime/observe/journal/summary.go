package journal

import (
	"bufio"
	"bytes"
	"io"
)

// A Summary is what a list of jails shows of one, from its journal.
type Summary struct {
	Created
	Argv []string
	// Exit is the first process's exit status, or the name of the signal that ended it; "" while
	// it runs, or where no program saw its end.
	Exit string
}

// Summary reads the jail's journal.
func (j *Jail) Summary() (s Summary, err error) {
	if j.Path == "" {
		return s, ErrNone
	}
	_, err = scan(j.Path, s.add)
	return s, err
}

// Summarize is Summary for events that were read already.
func Summarize(events []Event) (s Summary) {
	for _, e := range events {
		s.add(e)
	}
	return s
}

func (s *Summary) add(e Event) {
	switch {
	case e.Kind == JailCreate:
		s.created(e)
	case e.Kind == JailExit && e.Status != "":
		s.Exit = e.Status
	}
}

func (s *Summary) created(e Event) {
	s.Argv = e.Argv
	if d, ok := e.Detail.(Created); ok {
		s.Created = d
	}
}

// Called returns the engine's name of the jail, or that of its sandbox; "" for none.
func (j *Jail) Called() string { return j.created().Name }

// created is the Summary of the journal's first event alone.
func (j *Jail) created() (s Summary) {
	if j.Path == "" {
		return s
	}
	files, err := openAll(j.Path)
	if err != nil {
		return s
	}
	for _, f := range files {
		defer f.Close()
	}
	line, err := readLine(bufio.NewReader(io.LimitReader(files[0], maxLine)))
	if err != nil {
		return s
	}
	if e, ok := decode(bytes.TrimSuffix(line, []byte("\n"))); ok && e.Kind == JailCreate {
		s.created(e)
	}
	return s
}
