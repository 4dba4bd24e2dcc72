// Package report records what agentjail changed in a bundle: every change, by ring, with its
// reason. The record is logged, kept beside the running jail, and printed by `agentjail explain`.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/rings"
)

// Kind is the kind of a change of a field of the spec.
type Kind string

// The kinds of change, from harmless to notable.
const (
	Set     Kind = "set"     // the bundle had no value or a weaker one; this is the new one
	Lowered Kind = "lowered" // a limit was brought down to the policy's
	Dropped Kind = "dropped" // something that has no effect on trust was taken out
	Denied  Kind = "denied"  // a privilege that the caller requested and did not get
	Missing Kind = "missing" // a protection that this host does not support
)

// Change is one difference between the incoming and the hardened bundle.
type Change struct {
	Ring  rings.Ring `json:"ring"`
	Kind  Kind       `json:"kind"`
	Field string     `json:"field"`         // where in config.json, as a path
	Was   string     `json:"was,omitempty"` // short form of the incoming value
	Now   string     `json:"now,omitempty"` // short form of the hardened value
	Why   string     `json:"why"`
}

// String is the change in one line.
func (c Change) String() string {
	var b strings.Builder
	b.WriteString(c.Field)
	switch {
	case c.Was != "" && c.Now != "":
		fmt.Fprintf(&b, ": %s -> %s", c.Was, c.Now)
	case c.Now != "":
		fmt.Fprintf(&b, ": %s", c.Now)
	case c.Was != "" && c.Kind == Denied: // the caller prints the kind before
		fmt.Fprintf(&b, ": %s", c.Was)
	case c.Was != "":
		fmt.Fprintf(&b, ": %s %s", c.Was, c.Kind)
	}
	fmt.Fprintf(&b, " (%s)", c.Why)
	return b.String()
}

// Report lists the changes in the order in which they were made.
type Report struct {
	Changes []Change `json:"changes"`
}

// Add appends one change.
func (r *Report) Add(c Change) { r.Changes = append(r.Changes, c) }

// Of returns the changes of one kind.
func (r *Report) Of(k Kind) []Change {
	return r.where(func(c Change) bool { return c.Kind == k })
}

func (r *Report) where(is func(Change) bool) (out []Change) {
	for _, c := range r.Changes {
		if is(c) {
			out = append(out, c)
		}
	}
	return out
}

// Text writes the report for people: by ring from the outside in, denied privileges
// and missing protections first within each.
func (r *Report) Text(w io.Writer) error {
	order := map[Kind]int{Missing: 0, Denied: 1, Lowered: 2, Set: 3, Dropped: 4}
	for _, ring := range rings.All() {
		cs := r.where(func(c Change) bool { return c.Ring == ring })
		slices.SortStableFunc(cs, func(a, b Change) int { return order[a.Kind] - order[b.Kind] })
		if _, err := fmt.Fprintf(w, "%s\n", ring); err != nil {
			return err
		}
		if len(cs) == 0 {
			fmt.Fprintln(w, "  nothing to change")
		}
		for _, c := range cs {
			// Parts of a change come from the bundle.
			if _, err := fmt.Fprintf(w, "  %-8s %s\n", c.Kind, printable.Line(c.String(), 0)); err != nil {
				return err
			}
		}
	}
	return nil
}
