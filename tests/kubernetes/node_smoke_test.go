package kubernetes

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// TestSmoke: what is the node's own, its control groups, who makes them, and its security module, holds pods of both handlers. Everything
// else that pods have does not depend on the machine, and is in TestMatrix.
func TestSmoke(t *testing.T) {
	installed(t)
	for _, h := range handlers {
		if !h.jail() {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			h.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: smoke}
spec:
  $CLASS
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "$IMAGE", command: [sh, -c, "echo prints this; exec sleep 100000"], resources: {limits: {memory: 64Mi, cpu: 200m}}}
`)
			h.ready(t, "pod/smoke")
			eventually(t, "log", func() (string, bool) {
				out := h.in(t, "logs", "smoke")
				return out, out == "prints this"
			})
			env.Contain(t, "exec", h.sh(t, "smoke", "cat /proc/self/status"), "Seccomp:\t2")
			groups := h.groups(t, "smoke") // requested once: under emulation each kubectl takes ten seconds
			env.Equal(t, "memory", groupFile(t, groups, "memory.limit_in_bytes", "memory.max"), "67108864")
			confined(t, processes(t, groups))
			h.in(t, "delete", "pod", "smoke", timeout(commandWait))
			// The kubelet removes what a pod without a time of grace had after it has reported that it is gone.
			eventually(t, "the pod's control groups", func() (string, bool) {
				left := slices.DeleteFunc(slices.Clone(groups), func(dir string) bool { _, err := os.Stat(dir); return err != nil })
				return strings.Join(left, ", "), len(left) == 0
			})
		})
	}
}

// processes are those in a container's control groups, by the ids that this machine has for them.
func processes(t *testing.T, groups []string) []string {
	t.Helper()
	var pids []string
	for _, dir := range groups[:min(1, len(groups))] {
		// A delegate may have a group below the container's for them.
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "cgroup.procs" {
				text, _ := os.ReadFile(path)
				pids = append(pids, strings.Fields(string(text))...)
			}
			return nil
		})
	}
	if len(pids) == 0 {
		t.Fatalf("no process is in the control groups %q", groups)
	}
	return pids
}

// confined checks how the machine's security module confines processes, where the machine has one.
func confined(t *testing.T, pids []string) {
	t.Helper()
	modules, _ := os.ReadFile("/sys/kernel/security/lsm")
	if !strings.Contains(string(modules), "apparmor") {
		t.Logf("no AppArmor here, which the virtual machine has: %q", modules)
		return
	}
	for _, pid := range pids {
		text := env.Read(t, filepath.Join("/proc", pid, "attr/apparmor/current"))
		if says := string(text); !strings.HasPrefix(says, "agentjail") || !strings.Contains(says, "(enforce)") {
			t.Errorf("process %s is %q for AppArmor, and not in agentjail's profile", pid, says)
		}
	}
}
