package cri

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// bySystemd is whether systemd makes CRI-O's control groups, as on a node that a distribution set up, of version 2.
var bySystemd = flag.Bool("systemd", false, "have systemd, this machine's first process, make the control groups of CRI-O's pods; for a machine that is thrown away")

// slice has systemd make a pod's control group, as the kubelet does (pkg/kubelet/cm, cgroup_manager_linux.go), and returns its path. When the
// test ends nothing may be left in it.
func (n *node) slice(t *testing.T, uid string) string {
	t.Helper()
	name := "kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	path := filepath.Join(n.cgroups, "kubepods-burstable.slice", name)
	systemctl(t, "start", name)
	t.Cleanup(func() {
		var left []string
		// systemd removes a scope when the kernel has reported that its last process is gone.
		env.Eventually(t, "an empty "+name, func() bool {
			left, _ = filepath.Glob(filepath.Join("/sys/fs/cgroup", path, "*", "cgroup.procs"))
			return len(left) == 0
		})
		systemctl(t, "stop", name)
	})
	return path
}

// inScopes looks where the container's processes are: in a scope of the pod's slice, and beside it CRI-O's monitor in one of its own.
func (c *container) inScopes() {
	c.t.Helper()
	if !c.node.bySystemd {
		return
	}
	scope := filepath.Join(c.pod.config.Linux.CgroupParent, "crio-"+c.id+".scope")
	// crun has a group below its scope for the processes.
	if is := cgroup2(c.t, c.pid()); is != scope && is != scope+"/container" {
		c.t.Errorf("the jail's control group is %s, not %s", is, scope)
	}
	monitor := filepath.Join(c.pod.config.Linux.CgroupParent, "crio-conmon-"+c.id+".scope")
	if is := cgroup2(c.t, env.Parent(c.pid())); is != monitor {
		c.t.Errorf("the monitor's control group is %s, not %s", is, monitor)
	}
}

// limitedBySystemd checks that systemd knows the container's limits: it takes back those that it does not know when its units are loaded anew.
func (c *container) limitedBySystemd(want ...string) {
	c.t.Helper()
	if !c.node.bySystemd {
		return
	}
	says := strings.Fields(systemctl(c.t, "show", "crio-"+c.id+".scope"))
	for _, w := range want {
		if !slices.Contains(says, w) {
			name, _, _ := strings.Cut(w, "=")
			c.t.Errorf("no %s of its scope for systemd: %q", w, systemctl(c.t, "show", "-p", name, "crio-"+c.id+".scope"))
		}
	}
}

// cgroup2 is a process's control group of version 2.
func cgroup2(t *testing.T, pid int) string {
	t.Helper()
	_, path, ok := strings.Cut(env.ProcFile(t, pid, "cgroup"), "0::")
	if !ok {
		t.Fatalf("process %d has no control group of version 2", pid)
	}
	return strings.TrimSpace(path)
}

// systemctl runs it and returns what it prints.
func systemctl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("systemctl", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("systemctl %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}
