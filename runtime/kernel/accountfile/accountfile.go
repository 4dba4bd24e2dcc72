// Package accountfile splits passwd(5), group(5), subuid(5) and subgid(5) into their entries. The
// text may be an image's, and anything.
//
// github.com/moby/sys/user makes a list of all accounts, while callers here stop at the entry that
// they look for, and judge for themselves which numbers count.
package accountfile

import (
	"iter"
	"strings"
)

// Entries iterates over the entries that have at least so many fields. It passes over other lines,
// comments, and the compat entries of nsswitch.conf(5), as the files' own readers do.
func Entries(text string, fields int) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(text) {
			f := strings.Split(strings.TrimRight(line, "\r\n"), ":")
			if len(f) < fields || f[0] == "" || strings.ContainsAny(f[0][:1], "+-#") {
				continue
			}
			if !yield(f) {
				return
			}
		}
	}
}
