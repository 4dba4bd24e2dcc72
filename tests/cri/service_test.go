package cri

import (
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestService: in a pod of the policy service each container's root has what its own bundle has of six capabilities, whatever the others
// have; in another pod none has any, whatever it requests.
func TestService(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		change := func(c *runtimeapi.Capability, privileged bool) func(*runtimeapi.ContainerConfig) {
			return func(config *runtimeapi.ContainerConfig) {
				config.Linux.SecurityContext.Capabilities, config.Linux.SecurityContext.Privileged = c, privileged
			}
		}
		const none, six = "0000000000000000", "00000000000000eb"
		for handler, want := range map[string][4]string{"shim-service": {six, none, "0000000000000020", six}, "shim": {none, none, none, none}} {
			p := n.pod(t, handler, func(s *runtimeapi.PodSandboxConfig) { s.Linux.SecurityContext.Privileged = true })
			for i, c := range []*container{
				p.container("a", idle, change(nil, false)),
				p.container("b", idle, change(&runtimeapi.Capability{DropCapabilities: []string{"ALL"}}, false)),
				p.container("c", idle, change(&runtimeapi.Capability{DropCapabilities: []string{"ALL"}, AddCapabilities: []string{"KILL", "SYS_ADMIN"}}, false)),
				p.container("d", idle, change(nil, true)),
			} {
				if got := strings.Fields(c.must("grep CapBnd /proc/self/status"))[1]; got != want[i] {
					t.Errorf("%s, container %d: %s, not %s", handler, i, got, want[i])
				}
				if out, code := c.exec("touch /f && chown 33:33 /f"); (code == 0) != (want[i] == six) {
					t.Errorf("%s, container %d: chown ends with %d: %s", handler, i, code, out)
				}
				if out, code := c.exec("touch /f && chmod g+s /f"); code == 0 {
					t.Errorf("%s, container %d: a set-group-ID bit passes in a pod: %s", handler, i, out)
				}
			}
		}
	})
}
