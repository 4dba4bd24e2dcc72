package printable

import "testing"

func TestCount(t *testing.T) {
	for _, c := range []struct {
		n           int
		thing, want string
	}{{0, "run", "0 runs"}, {1, "process", "1 process"}, {2, "process", "2 processes"}} {
		if got := Count(c.n, c.thing); got != c.want {
			t.Errorf("%d %s: %q, want %q", c.n, c.thing, got, c.want)
		}
	}
}
