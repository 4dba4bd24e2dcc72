package boundary

import (
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// TestRootOnDisk: the sentry's root is on disk as that of any jail, and ends with the jail.
func TestRootOnDisk(t *testing.T) {
	engine.NeedsViews(t)
	engine.LayersOnDisk(t)
	b := engine.NewBundle(t, "/var/tmp")
	c := engine.Caller{Path: bin, Args: []string{"--config", policy(t, strings.Replace(engine.DiskPolicy, "48MiB", "512MiB", 1)), "--root", filepath.Join(b.Dir, "state")}}
	b.Spec.Process.Args = []string{"sh", "-c", engine.OnDisk}
	if out, err := b.Run(t, c); err != nil || out != "on disk\n" {
		t.Errorf("%v: %s", err, out)
	}
	engine.NoDiskRoots(t)
}
