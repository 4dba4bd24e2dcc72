package guest

import (
	"strconv"
	"strings"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// lines calls f for every line of s until it returns false.
func lines(s string, f func(string) bool) {
	for len(s) > 0 {
		line, rest, _ := strings.Cut(s, "\n")
		if !f(line) {
			return
		}
		s = rest
	}
}

// squeeze joins the words of every line by single spaces: the form in which the
// kernel's aligned columns are compared.
func squeeze(s string) string {
	var b strings.Builder
	lines(s, func(l string) bool {
		b.WriteString(strings.Join(strings.Fields(l), " "))
		b.WriteByte('\n')
		return true
	})
	return b.String()
}
