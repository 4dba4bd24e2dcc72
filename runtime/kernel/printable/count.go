package printable

import (
	"fmt"
	"strings"
)

// Count is "1 thing" or "N things", for a thing whose plural takes an s, or es after one.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if strings.HasSuffix(thing, "s") {
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
