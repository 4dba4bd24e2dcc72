package guest

import (
	"testing"
)

func TestLabelled(t *testing.T) {
	for _, c := range []struct {
		have, want string
		ok         bool
	}{
		{"agentjail-default (enforce)", "agentjail-default (enforce)", true},
		{"agentjail-default (complain)", "agentjail-default (enforce)", false},
		{"unconfined", "agentjail-default (enforce)", false},
		{"a//&b (enforce)", "b//&a (enforce)", true},
		{"a//&b (mixed)", "b//&a (enforce)", true},
		{"a//&b//&c (enforce)", "b//&a (enforce)", true},
		{"a (enforce)", "b//&a (enforce)", false},
		{"a//&b (complain)", "b//&a (enforce)", false},
		{"ab//&b (enforce)", "b//&a (enforce)", false},
		{"system_u:system_r:container_t:s0:c1,c2", "system_u:system_r:container_t:s0:c1,c2", true},
		{"system_u:system_r:container_t:s0:c1,c3", "system_u:system_r:container_t:s0:c1,c2", false},
	} {
		if got := labelled(c.have, c.want); got != c.ok {
			t.Errorf("labelled(%q, %q) is %v", c.have, c.want, got)
		}
	}
}

// TestNewProcessHasItsFilters: a process that has no filters yet is read again, and one that has none is reported so.
func TestNewProcessHasItsFilters(t *testing.T) {
	for _, row := range []struct {
		modes []string // by reading
		tries int
		want  string
		left  int
	}{
		{[]string{"2"}, 3, "2", 3},
		{[]string{"0", "0", "2"}, 3, "2", 1},
		{[]string{"0", "0", "0", "0"}, 3, "0", 0},
		{[]string{"0"}, 0, "0", 0}, // others have had the tries
	} {
		n := 0
		fields, err := settledStatus(func() (string, error) {
			n++
			return "Name:\tsh\nSeccomp:\t" + row.modes[n-1] + "\n", nil
		}, &row.tries)
		if err != nil || fields["Seccomp"] != row.want || row.tries != row.left || n != len(row.modes) {
			t.Errorf("%v: mode %s after %d readings, %d tries left, %v", row.modes, fields["Seccomp"], n, row.tries, err)
		}
	}
}
