package packages

import (
	"strings"
	"testing"
)

// TestInstallReports: on a machine that lacks what jails need, or has it in a release that is too old, the package is installed all the same,
// and reports what is missing.
func TestInstallReports(t *testing.T) {
	const others = "for f in $(which -a runc crun | xargs -n 1 readlink -f | sort -u); do "
	for _, c := range []struct {
		name  string
		lacks string // takes it from the machine
		says  string // of the lines that the package writes
		start bool   // jails can start nevertheless
	}{
		{"no delegate", others + "rm $f; done", "agentjail: missing  all     delegate", false},
		{"a delegate too old to report its features", others + `printf '#!/bin/sh\necho runc version 1.0.0-rc1\n' >$f; done`, "does not report its features", true},
		{"a delegate that does not run", others + `printf '#!/bin/sh\nexit 1\n' >$f; done`, "delegate", false},
		{"no control groups", "umount -l /sys/fs/cgroup", "agentjail: warning  ring 2  control groups", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.must("sh", "-euc", c.lacks)
			r := m.run("dpkg", "--install", m.give(deb(first)))
			t.Logf("%s%s", r.Stdout, r.Stderr)
			if r.Code != 0 || !strings.Contains(r.Stdout, c.says) {
				t.Errorf("not %q: %s", c.says, r)
			}
			if none := strings.Contains(r.Stdout, "agentjail: no jail can start on this machine as it is"); none == c.start {
				t.Errorf("no jail can start: %t", none)
			}
			if state := m.must("dpkg-query", "--show", "--showformat", "${Status}", "agentjail"); state != "install ok installed" {
				t.Errorf("the package is %q", state)
			}
		})
	}
}
