package printable

import (
	"slices"
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

// Labelled joins pairs of a label and a value: " by RULE because REASON". A pair without a value is
// left out, and a value without a label stands alone.
func Labelled(pairs ...string) string {
	var b strings.Builder
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			b.WriteString(strings.TrimRight(" "+pair[0], " ") + " " + pair[1])
		}
	}
	return b.String()
}
