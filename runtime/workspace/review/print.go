package review

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
)

// Select returns the changes of some paths, and of all below them; all changes without a path. A
// renamed directory comes with its removal at the former path, and a file with the directories
// that it needs: of a renamed one, a new directory. The marks are for an apply of just these. An
// error names a path without changes.
func (r *Review) Select(paths []string) ([]*Change, error) {
	if len(paths) == 0 {
		r.mark(r.Changes)
		return r.Changes, nil
	}
	chosen := map[*Change]bool{}
	for _, p := range paths {
		if p == "" {
			return nil, errors.New("a PATH is empty (remedy: . is all of the directory)")
		}
		p = path.Clean(p)
		found := false
		for _, c := range r.Changes {
			if p == "." || pathname.Within(c.Path, p) || c.Kind == Renamed && pathname.Within(c.From, p) ||
				c.By != "" && pathname.Within(c.By, p) {
				chosen[c], found = true, true
			}
		}
		if !found {
			return nil, r.notFound(p)
		}
	}
	needed := r.complete(chosen)
	var out []*Change
	for _, c := range r.Changes {
		switch {
		case chosen[c]:
			out = append(out, c)
		case needed[c] && c.Kind == Renamed:
			dir := *c
			dir.Kind, dir.From = Added, ""
			out = append(out, &dir)
		case needed[c]:
			out = append(out, c)
		}
	}
	r.mark(out)
	return out, nil
}

// notFound is the error for a path without changes.
func (r *Review) notFound(p string) error {
	for _, c := range r.Changes {
		if c.Kind != Deleted || !pathname.Below(p, c.Path) {
			continue
		}
		what := "is removed"
		if c.By != "" {
			what = "is renamed to " + printable.Line(c.By, 0)
		}
		return fmt.Errorf("%s: its directory %s %s as a whole (remedy: name that one)", printable.Line(p, 0), printable.Line(c.Path, 0), what)
	}
	return fmt.Errorf("%s: the view has no change there", printable.Line(p, 0))
}

// complete adds both halves of a rename to the chosen changes, and returns the new directories on
// their way.
func (r *Review) complete(chosen map[*Change]bool) (needed map[*Change]bool) {
	byPath := map[string]*Change{}
	var renamed []string
	for _, c := range r.Changes {
		byPath[c.Path] = c
	}
	for c := range chosen {
		for _, p := range []string{c.Path, c.By} {
			if up := byPath[p]; up != nil && up.Kind == Renamed {
				renamed = append(renamed, p)
			}
		}
	}
	for _, c := range r.Changes {
		if slices.ContainsFunc(renamed, func(p string) bool { return pathname.Within(c.Path, p) || c.By == p }) {
			chosen[c] = true
		}
	}
	needed = map[*Change]bool{}
	for c := range chosen {
		for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
			if up := byPath[dir]; up != nil && up.Type == Dir && (up.Kind == Added || up.Kind == Type || up.Kind == Renamed) {
				needed[up] = true
			}
		}
	}
	return needed
}

// Counts are numbers of changes by kind, without implied ones.
type Counts struct {
	Added, Changed, Deleted, Marked, Conflicts int
}

// Count counts changes.
func Count(list []*Change) (n Counts) {
	for _, c := range list {
		if c.Implied {
			continue
		}
		switch c.Kind {
		case Added:
			n.Added++
		case Deleted:
			n.Deleted++
		default:
			n.Changed++
		}
		if len(c.Marks) > 0 {
			n.Marked++
		}
		if c.Conflict != "" {
			n.Conflicts++
		}
	}
	return n
}

// String is a summary in words.
func (n Counts) String() string {
	out := fmt.Sprintf("%d added, %d changed, %d deleted", n.Added, n.Changed, n.Deleted)
	if n.Marked > 0 {
		out += fmt.Sprintf("; %d to look at first", n.Marked)
	}
	if n.Conflicts > 0 {
		out += fmt.Sprintf("; %d in conflict", n.Conflicts)
	}
	return out
}

// order are the kinds of marks, the most important first.
var order = []string{Protected, Out, Never, Run, SetID, Writable, Name, Executable}

// rank is a change's place in a list: by its marks.
func rank(c *Change) int {
	if i := slices.IndexFunc(order, c.Has); i >= 0 {
		return i
	}
	return len(order)
}

// Print writes changes as lines, marked ones first, at most max of each of both parts (0: all).
func Print(out io.Writer, list []*Change, max int) error {
	shown := slices.DeleteFunc(slices.Clone(list), func(c *Change) bool { return c.Implied })
	slices.SortStableFunc(shown, func(a, b *Change) int { return cmp.Compare(rank(a), rank(b)) })
	var b strings.Builder
	printed, cut, had := 0, 0, false
	for i, c := range shown {
		marked := len(c.Marks) > 0
		if i > 0 && !marked && had {
			printed = 0
			b.WriteString("\n")
		}
		had = marked
		if printed++; max > 0 && printed > max {
			cut++
			continue
		}
		b.WriteString(c.String())
		for _, m := range c.Marks {
			fmt.Fprintf(&b, "  [%s: %s]", m.Kind, m.Why)
		}
		if c.Conflict != "" {
			fmt.Fprintf(&b, "  [conflict: %s]", c.Conflict)
		}
		b.WriteString("\n")
	}
	if cut > 0 {
		fmt.Fprintf(&b, "... and %d more\n", cut)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
