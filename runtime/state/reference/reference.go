// Package reference finds what a command's argument names: a jail, a view. All commands find by the
// same rule.
package reference

import (
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
)

// A Named is one of those that an argument can name.
type Named struct {
	ID string
	// Show names it alone, for errors.
	Show string
	// Names returns its further names, in full. It is called only where they may count.
	Names func() []string
	// Runs reports that it has not ended.
	Runs bool
}

// maxListed bounds the number of those that an error lists.
const maxListed = 8

// Find returns the index of the one that ref names, and -1 for none. A whole id or name goes before
// the beginning of an id, and one that runs before one that has ended. Of several ended ones with
// the same whole name, the first of the list counts if last is true; any other ambiguity is an
// error that lists them.
func Find(ref string, all []Named, last bool) (int, error) {
	if ref == "" {
		return -1, nil
	}
	whole := func(n Named) bool { return n.ID == ref || slices.Contains(n.Names(), ref) }
	begins := func(n Named) bool { return strings.HasPrefix(n.ID, ref) }
	for _, step := range []struct {
		match func(Named) bool
		runs  bool
		last  bool
	}{{whole, true, false}, {whole, false, last}, {begins, true, false}, {begins, false, false}} {
		at, ids, shown := -1, []string(nil), []string(nil)
		for i, n := range all {
			if n.Runs != step.runs || !step.match(n) {
				continue
			}
			if at < 0 {
				at = i
			}
			if !slices.Contains(ids, n.ID) {
				ids, shown = append(ids, n.ID), append(shown, n.Show)
			}
		}
		if len(ids) > 1 && !step.last {
			return -1, fmt.Errorf("%q is ambiguous: %s (remedy: one of these)", ref, list(shown))
		}
		if at >= 0 {
			return at, nil
		}
	}
	return -1, nil
}

// list joins names for an error.
func list(shown []string) string {
	more := ""
	if n := len(shown) - maxListed; n > 0 {
		shown, more = shown[:maxListed], fmt.Sprintf(" and %d more", n)
	}
	return printable.Line(strings.Join(shown, ", "), 0) + more
}
