package receipt

import (
	"fmt"
	"path"

	"agentjail.dev/runtime/observe/journal"
)

// A warning stands in the receipt's first part, beside what the host may run.
type warning struct {
	Title string
	Lines []string
	// Remedy is what to do about it.
	Remedy string
}

// stale adds a repository in which git could not replace protected files.
func (m *maker) stale(e *journal.Event, d journal.Stale) {
	if t := &m.r.Touched; len(t.Stale) < maxNoted {
		t.Stale = append(t.Stale, Stale{e.Path, d})
	}
}

// warnings are what else needs a look before the host uses the mounted directories.
func (t *Touched) warnings() (out []warning) {
	if len(t.Lost) > 0 {
		w := warning{
			Title:  "A protected path LOST its protection while the jail ran: the jail could write to it",
			Remedy: "look at it before the host runs it",
		}
		for _, l := range t.Lost {
			w.Lines = append(w.Lines, l.Path+": "+l.Why)
		}
		out = append(out, w)
	}
	if len(t.Stale) > 0 {
		w := warning{
			Title:  "COMPARE before you merge: git kept protected files of another branch in the jail",
			Remedy: "compare the protected files of the jail's commits before they are merged; `git restore` on the host",
		}
		for i := range t.Stale {
			w.Lines = append(w.Lines, t.Stale[i].lines()...)
		}
		out = append(out, w)
	}
	return out
}

// lines are a sentence for each file, and what is known beyond them.
func (s *Stale) lines() (out []string) {
	for _, name := range s.Files {
		out = append(out, fmt.Sprintf("a commit from this jail can revert %s of another branch", path.Join(s.Repository, name)))
	}
	if n := s.Total - len(s.Files); n > 0 {
		out = append(out, fmt.Sprintf("a commit from this jail can revert %d more files of another branch in %s", n, s.Repository))
	}
	if s.Committed {
		out = append(out, fmt.Sprintf("commits were made in %s after a switch of branch: they can have reverted protected files already", s.Repository))
	}
	return out
}
