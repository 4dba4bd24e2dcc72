package cri

import (
	"strings"
	"testing"
)

// The containers of a pod are jails that share one user namespace of their own, its ids, and the pod's network.
func TestPodShares(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		for _, handler := range []string{"agentjail", "agentjail-net"} {
			t.Run(handler, func(t *testing.T) {
				p := n.pod(t, handler)
				a, b := p.container("a", idle), p.container("b", idle)
				pids := []int{p.pid(), a.pid(), b.pid()}
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
				if namespace(t, pids[1], "pid") == namespace(t, pids[2], "pid") || namespace(t, pids[1], "mnt") == namespace(t, pids[2], "mnt") {
					t.Error("two containers share processes or mounts")
				}
				for _, pid := range pids {
					if m := proc(t, pid, "uid_map"); m != proc(t, pids[0], "uid_map") || strings.Fields(m)[1] == "0" {
						t.Errorf("ids %q", m)
					}
				}
				a.must("nc -l -p 8080 -e echo over-lo >/dev/null 2>&1 & sleep 0; :")
				if out := b.must("for i in 1 2 3 4 5 6 7 8 9 10; do nc 127.0.0.1 8080 </dev/null && break; sleep 0.2; done"); out != "over-lo" {
					t.Errorf("over lo came %q", out)
				}
				t.Log(a.must("ip addr; cat /etc/resolv.conf /etc/hostname; id; hostname"))
			})
		}
	})
}
