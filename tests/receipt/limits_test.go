package receipt

import (
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestLimitsOfTheContainer: where the container's own limit is the smaller one, `agentjail why` has its option, and no key of policy's; the other
// way round policy's.
func TestLimitsOfTheContainer(t *testing.T) {
	d := docker.For(t)
	why := func(id, text string, wants, not []string) {
		t.Helper()
		out, _ := agentjail(t, "why", id, text)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%q: %q is not in\n%s", text, want, out)
			}
		}
		for _, bad := range not {
			if strings.Contains(out, bad) {
				t.Errorf("%q: %q is in\n%s", text, bad, out)
			}
		}
	}
	id := d.Detached("--runtime", "agentjail-receipt", "--name", "agentjail-receipt-limits", "--pids-limit", "50", "--memory", "200m", "--ulimit", "nofile=64", "--shm-size", "2m",
		"--tmpfs", "/x:size=1m", engine.Busybox, "sh", "-c", "dd if=/dev/zero of=/dev/shm/f; dd if=/dev/zero of=/x/f; (for i in $(seq 80); do sleep 1000 & done); exec sleep 1000")
	env.Eventually(d, "the limits to be met", func() bool {
		out, _ := agentjail(t, "why", id, "sh: can't fork: Resource temporarily unavailable")
		return strings.Contains(out, "the limit of 50 processes was met")
	})
	why(id, "sh: can't fork: Resource temporarily unavailable", []string{"--pids-limit 100"}, []string{"limits.pids = "})
	why("agentjail-receipt-limits", "OSError: [Errno 24] Too many open files", []string{"64 files open", "--ulimit nofile=128"}, []string{"limits.nofile = "})
	why(id, "write error: No space left on device", []string{"/dev/shm is full", "--shm-size 4m"}, []string{"tmpfs.size = "})
	why(id, "Killed", []string{"memory limit of 200MiB", "--memory 400m"}, []string{"limits.memory = "})
	why(id, "/dev/shm/f: No space left on device", []string{"is full"}, []string{"devices.allow"})
	other := d.Detached("--runtime", "agentjail-receipt", engine.Busybox, "sleep", "1000")
	why(other, "Killed", []string{`limits.memory = "8GiB"`}, []string{"--memory "})
	why(other, "Too many open files", []string{"limits.nofile = 32768"}, []string{"--ulimit"})
	why(other, "sh: /etc/hosts: Read-only file system", []string{"--add-host"}, []string{"without :ro"})
}
