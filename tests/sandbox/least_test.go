package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestStartErrors: what keeps a sandbox from starting is named in agentjail's own words, with the remedy and status 125, and the least of a limit
// starts.
func TestStartErrors(t *testing.T) {
	file := filepath.Join(engine.Workspace(t, nil), "file")
	env.Check(t, os.WriteFile(file, nil, 0o644))
	for _, c := range []struct{ option, value, says string }{
		{"--workspace", file, "it is not a directory (remedy: "},
		{"--workspace", "/", "it is the whole machine (remedy: "},
		{"--tighten", "limits.pids=1", "limits.pids of 1 is below 16, the least with which a jail starts (remedy: "},
		{"--tighten", "limits.pids=15", "limits.pids of 15 is below 16"},
		{"--tighten", "limits.memory=1KiB", "limits.memory of 1KiB is below 3MiB"},
		{"--tighten", "root.inodes=1", "root.inodes of 1 is below 12"},
	} {
		code, out, errs := sandbox(t, c.option, c.value, "--", "true")
		if code != 125 || !strings.Contains(errs, c.says) || strings.Contains(errs+out, "runc") || strings.Contains(errs, "goroutine") {
			t.Errorf("%s %s: status %d: %s%s", c.option, c.value, code, out, errs)
		}
	}
	for _, least := range []string{"limits.pids=16", "limits.memory=4MiB", "root.inodes=12", "root.size=4KiB", "tmpfs.size=4KiB"} {
		if code, out, errs := sandbox(t, "--tighten", least, "--", "true"); code != 0 {
			t.Errorf("%s: status %d: %s%s", least, code, out, errs)
		}
	}
}
