package accountfile

import (
	"slices"
	"testing"
)

func TestEntries(t *testing.T) {
	const text = "root:x:0:0\n# a:b:c:d\n+::0:0\n-bob:x:1:1\n\n:x:2:2\nfew:x:3\r\nlast:x:4:4:more\r\nend:x:5:5"
	var names []string
	for f := range Entries(text, 4) {
		names = append(names, f[0]+f[len(f)-1])
	}
	if want := []string{"root0", "lastmore", "end5"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	for f := range Entries(text, 4) {
		if f[0] != "root" {
			t.Errorf("%s after the end", f[0])
		}
		break
	}
}
