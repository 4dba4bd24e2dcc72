package shim

import (
	"testing"

	"agentjail.dev/tests/engine"
)

// TestRootOnDisk: policy has a jail's root on disk, which ends with the jail.
func TestRootOnDisk(t *testing.T) {
	engine.NeedsViews(t)
	engine.LayersOnDisk(t)
	file := engine.PolicyFile(t, engine.DiskPolicy)
	each(t, func(t *testing.T, c *engine.CT) {
		id := startJail(t, c, "--runtime-config-path", file)
		if r := execIn(c, id, "sh", "-c", engine.OnDisk); r.Code != 0 || len(engine.DiskRoots()) != 1 {
			t.Errorf("%q: %s", engine.DiskRoots(), r)
		}
		c.Remove(id)
		engine.NoDiskRoots(t)
	})
}
