package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestRootOnDisk: policy has a sandbox's root on disk, which ends with the sandbox; where its layer cannot be made the start is refused by
// name.
func TestRootOnDisk(t *testing.T) {
	engine.NeedsViews(t)
	path := filepath.Join(engine.TempDir(t, "/tmp", "agentjail-disk-"), "config.toml")
	write := func(text string) {
		t.Helper()
		env.Check(t, os.WriteFile(path, []byte(text), 0o644))
	}
	const size = "df -k / | tail -n 1 | awk '{print $2}'"
	t.Run("disk", func(t *testing.T) {
		engine.LayersOnDisk(t)
		write(engine.DiskPolicy)
		if code, out, errs := sandbox(t, "--config", path, "--", "sh", "-c", size); code != 0 || !strings.HasPrefix(out, "9") {
			t.Errorf("status %d: %s%s", code, out, errs)
		}
		if code, out, errs := sandbox(t, "--config", path, "--tighten", "root.backing=memory", "--", "sh", "-c", size); code != 0 || out != "1048576\n" {
			t.Errorf("in memory: status %d: %s%s", code, out, errs)
		}
		engine.NoDiskRoots(t)
		for text, want := range map[string]string{
			"root.backing = \"disk\"\nroot.disk = \"14TiB\"\n":                         "and the layer takes 14680064 MiB (remedy: policy: a smaller root.disk",
			"root.backing = \"disk\"\nroot.disk = \"32MiB\"\ndisk.free = \"900TiB\"\n": "are to stay free (remedy: policy: a smaller root.disk",
		} {
			write(text)
			if code, _, errs := sandbox(t, "--config", path, "--", "true"); code != 125 || !strings.Contains(errs, want) {
				t.Errorf("status %d: %s", code, errs)
			}
		}
	})
	write(engine.DiskPolicy)
	if _, out := agentjail(t, "--config", path, "check", "-v"); strings.Contains(out, "is in memory") {
		if code, _, errs := sandbox(t, "--config", path, "--", "true"); code != 125 || !strings.Contains(errs, "is in memory (remedy: mount a disk there") {
			t.Errorf("in memory: status %d: %s", code, errs)
		}
	}
}
