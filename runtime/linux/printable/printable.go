// Package printable makes text from containers fit for terminals and logs:
// paths, labels and names that a jail or a bundle has chosen may hold escape
// sequences, line breaks that pass for further lines, or marks that turn the
// direction of the text around.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s as one line of at most max characters of printable text.
// Everything else is written as \xNN or \u{NNNN}; what is cut off is marked by
// "...". A max of 0 or less sets no bound.
func Line(s string, max int) string {
	if (max <= 0 || len(s) <= max) && plain(s) {
		return s
	}
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1, r < utf8.RuneSelf && !unicode.IsPrint(r):
			piece = fmt.Sprintf(`\x%02x`, s[i])
		case !unicode.IsPrint(r): // also formatting and direction marks
			piece = fmt.Sprintf(`\u{%x}`, r)
		}
		if n += utf8.RuneCountInString(piece); max > 0 && n > max {
			return b.String() + "..."
		}
		b.WriteString(piece)
		i += size
	}
	return b.String()
}

// plain says that a text is printable ASCII, as nearly all is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
