package shim

import (
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

func TestRun(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		out := c.Must("run", "--rm", "--runtime", engine.ShimRuntime, engine.BusyboxImage, "run", "sh", "-c", "cat /proc/self/uid_map; grep -E 'CapEff|Seccomp:|NoNewPrivs' /proc/self/status")
		t.Log(c.Version(), out)
		if !strings.Contains(out, "CapEff:\t0000000000000000") {
			t.Error(out)
		}
	})
}
