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
