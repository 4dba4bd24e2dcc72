package promise

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// journaled: what happened to the jail so far is in its journal, whose chain holds.
func journaled(s *Subject) error {
	if err := s.lacks(s.Jail.ID, "jail.create", "jail.start", "exec.start"); err != nil {
		return err
	}
	if r := s.Query(s.TB, "journal", "--verify", s.Jail.ID); r.Code != 0 {
		return errors.New(r.String())
	}
	return nil
}

// lacks reports which kinds of events a jail's journal lacks.
func (s *Subject) lacks(id string, kinds ...string) error {
	r := s.Query(s.TB, "journal", "--json", id)
	if r.Code != 0 {
		return errors.New(r.String())
	}
	for line := range strings.Lines(r.Stdout) {
		var e struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == e.Kind })
	}
	if len(kinds) > 0 {
		return fmt.Errorf("the journal has no %v: %s", kinds, r)
	}
	return nil
}

// receipted: the jail that was removed last has a receipt, by which nothing remains of it.
func receipted(s *Subject) error {
	// The teardown is noted last, when an engine may have answered already.
	if err := s.eventually(func() error { return s.lacks(s.Jail.ID, "jail.create", "jail.delete", "jail.teardown") }); err != nil {
		return err
	}
	r := s.Query(s.TB, "receipt", "--json", s.Jail.ID)
	if r.Code != 0 {
		return errors.New(r.String())
	}
	var got struct {
		Teardown struct {
			Done    bool              `json:"done"`
			Gone    []json.RawMessage `json:"gone"`
			Remains []json.RawMessage `json:"remains"`
		} `json:"teardown"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
		return err
	}
	if d := got.Teardown; !d.Done || len(d.Gone) == 0 || len(d.Remains) > 0 {
		return fmt.Errorf("of the end it states %s", r)
	}
	return nil
}
