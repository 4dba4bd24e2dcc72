package cri

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// hostUsers: false brings the kubelet's own ids. They are the jail's then, and nothing is shifted twice: the image's files are
// root's, and those of volumes keep their owners on the node.
func TestHostUsersFalse(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		if major, _, _ := strings.Cut(n.Containerd.Version(), "."); major == "1" {
			t.Skipf("containerd %s has no user namespaces for pods", n.Containerd.Version())
		}
		// The kubelet first checks that the handler can.
		st, err := n.Status(callContext(t), &runtimeapi.StatusRequest{})
		env.Check(t, err)
		can := map[string]bool{}
		for _, h := range st.RuntimeHandlers {
			can[h.Name] = h.GetFeatures().GetUserNamespaces()
		}
		if !can["agentjail"] || !can["agentjail-net"] {
			t.Errorf("handlers with user namespaces: %v", can)
		}
		const first = 1 << 20
		ids := []*runtimeapi.IDMapping{{HostId: first, ContainerId: 0, Length: 65536}}
		users := &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids, Gids: ids}
		for _, handler := range []string{"agentjail", "agentjail-net"} {
			t.Run(handler, func(t *testing.T) {
				p := n.pod(t, handler, func(s *runtimeapi.PodSandboxConfig) { s.Linux.SecurityContext.NamespaceOptions.UsernsOptions = users })
				cache := p.volume("empty-dir", "cache", 0o777)
				mapped := func(c *runtimeapi.ContainerConfig) {
					c.Mounts = append(c.Mounts, &runtimeapi.Mount{HostPath: cache, ContainerPath: "/cache", UidMappings: ids, GidMappings: ids})
				}
				a, b := p.container("a", idle, mapped), p.container("b", idle, mapped, as(1000, 1000))
				for _, pid := range []int{p.pid(), a.pid(), b.pid()} {
					if m := strings.Fields(env.ProcFile(t, pid, "uid_map")); len(m) != 3 || m[0] != "0" || m[1] != strconv.Itoa(first) || m[2] != "65536" {
						t.Errorf("ids %v", m)
					}
					if namespace(t, pid, "user") != namespace(t, p.pid(), "user") {
						t.Error("the pod's containers are in several user namespaces")
					}
				}
				if out := a.must("stat -c %u:%g /bin/busybox /etc/image-secret /home/app && cat /etc/image-secret >/dev/null && echo x >/etc/new && stat -c %u /etc/new"); out != "0:0\n0:0\n1000:1000\n0" {
					t.Errorf("owners in the image: %q", out)
				}
				a.must("echo a >/cache/a")
				if out := b.must("echo b >/cache/b; cat /cache/a; stat -c %u /cache/a /cache/b"); out != "a\n0\n1000" {
					t.Errorf("owners in a volume: %q", out)
				}
				for name, want := range map[string]uint32{"a": 0, "b": 1000} {
					if owner := env.Owner(t, filepath.Join(cache, name)); owner != fmt.Sprintf("%d:%[1]d", want) {
						t.Errorf("%s belongs to %s on the node, not %d", name, owner, want)
					}
				}
				a.inside()
				if st, err := os.Stat(fmt.Sprintf("/proc/%d/root/etc/new", a.pid())); err == nil && st.Size() == 0 {
					t.Error("nothing was written")
				}
			})
		}
	})
}
