package guest

import (
	"strconv"
	"strings"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// singleSpaced joins the words of every line by single spaces: the form in which the
// kernel's aligned columns are compared.
func singleSpaced(s string) string {
	var b strings.Builder
	for l := range strings.Lines(s) {
		b.WriteString(strings.Join(strings.Fields(l), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
