package cri

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// The containers of a pod are jails that share one user namespace of their own, its ids, and the pod's network.
func TestPodShares(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		for _, handler := range []string{"agentjail", "agentjail-net", "shim-net", "byname-net"} {
			t.Run(handler, func(t *testing.T) {
				p := n.pod(t, handler)
				a, b := p.container("a", serve(8080, "over-lo")), p.container("b", idle)
				pids := []int{p.pid(), a.pid(), b.pid()}
				// containerd 1.6 takes no notice of runtime_path: its own shim then runs agentjail by name.
				shim := engine.ShimName
				if strings.HasPrefix(handler, "byname") || strings.HasPrefix(handler, "agentjail") && strings.HasPrefix(n.Containerd.Version(), "1.6.") {
					shim = "containerd-shim-runc-v2"
				}
				for _, pid := range pids {
					if exe := env.ProcLink(t, env.Parent(pid), "exe"); filepath.Base(exe) != shim {
						t.Errorf("the shim is %s, and not %s", exe, shim)
					}
				}
				for _, kind := range []string{"user", "ipc", "uts", "net"} {
					first := namespace(t, pids[0], kind)
					if first == hosts(t, kind) {
						t.Errorf("the %s namespace is the host's", kind)
					}
					for _, pid := range pids[1:] {
						if got := namespace(t, pid, kind); got != first {
							t.Errorf("%s namespace %s, the sandbox's is %s", kind, got, first)
						}
					}
				}
				for _, id := range []string{p.id, a.id, b.id} {
					if out, err := exec.Command(agentjail(t), "inspect", id).CombinedOutput(); err != nil {
						t.Errorf("inspect: %v\n%s", err, out)
					}
				}
				if namespace(t, pids[1], "pid") == namespace(t, pids[2], "pid") || namespace(t, pids[1], "mnt") == namespace(t, pids[2], "mnt") {
					t.Error("two containers share processes or mounts")
				}
				for _, pid := range pids {
					if m := env.ProcFile(t, pid, "uid_map"); m != env.ProcFile(t, pids[0], "uid_map") || strings.Fields(m)[1] == "0" {
						t.Errorf("ids %q", m)
					}
				}
				env.Eventually(t, "an answer over the pod's lo", func() bool {
					out, _ := b.exec("nc 127.0.0.1 8080 </dev/null")
					return out == "over-lo"
				})
				if out := a.must("hostname; cat /etc/hostname /etc/resolv.conf; id -u"); out != "a-pod\na-pod\nsearch default.svc.cluster.local\nnameserver 10.77.0.53\n0" {
					t.Errorf("names: %q", out)
				}
				if out := a.must("ip -o addr show dev eth0 2>/dev/null | wc -l"); (out != "0") != strings.HasSuffix(handler, "-net") {
					t.Errorf("%s addresses of CNI's", out)
				}
			})
		}
	})
}

// agentjail is the path of the program under test.
func agentjail(t *testing.T) string {
	t.Helper()
	dir := env.Get(t, engine.Shim)
	return filepath.Join(dir, "agentjail")
}
