package printable

import "testing"

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		head, text string
		width      int
		want       string
	}{
		{"a: ", "", 10, "a: "},
		{"a: ", "one two", 10, "a: one two"},
		{"a: ", "one twos", 10, "a: one\n   twos"},
		{"a: ", "muchtoolongaword b", 10, "a: muchtoolongaword\n   b"},
		{"", "ä ö ü", 3, "ä ö\nü"},
	} {
		if got := Wrap(c.head, c.text, c.width); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
