package printable

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text after head into lines of at most width characters, at its spaces. Lines after
// the first are indented by the length of head. A word that is longer than a line stays whole.
func Wrap(head, text string, width int) string {
	indent := strings.Repeat(" ", utf8.RuneCountInString(head))
	var b strings.Builder
	b.WriteString(head)
	n := len(indent)
	for i, word := range strings.Fields(text) {
		wide := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case n+1+wide > width:
			b.WriteString("\n" + indent)
			n = len(indent)
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += wide
	}
	return b.String()
}
