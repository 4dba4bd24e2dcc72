package cri

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// With on_loosen = "refuse" an ordinary pod starts, and one that requests more is refused with the reason.
func TestPodRefusals(t *testing.T) {
	type sandbox = runtimeapi.PodSandboxConfig
	onEach(t, func(t *testing.T, n *node) {
		n.pod(t, "refuse").container("main", "exit 0").wait()
		for what, change := range map[string]func(*sandbox){
			"network": func(s *sandbox) { s.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE },
			"pid":     func(s *sandbox) { s.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_NODE },
			"ipc":     func(s *sandbox) { s.Linux.SecurityContext.NamespaceOptions.Ipc = runtimeapi.NamespaceMode_NODE },
		} {
			if err := n.plan(t, change).run("refuse"); err == nil || !strings.Contains(err.Error(), "linux.namespaces["+what+"]") || !strings.Contains(err.Error(), "a jail shares no namespace with the host") {
				t.Errorf("the host's %s: %v", what, err)
			}
		}
		privileged := n.plan(t, func(s *sandbox) { s.Linux.SecurityContext.Privileged = true })
		if err := privileged.run("refuse"); err == nil || !strings.Contains(err.Error(), "linux.seccomp: refused: unconfined is more than policy allows") {
			t.Errorf("privileged: %v", err)
		}
		_, err := n.pod(t, "refuse").start("capable", idle, func(c *runtimeapi.ContainerConfig) {
			c.Linux.SecurityContext.Capabilities = &runtimeapi.Capability{AddCapabilities: []string{"SYS_ADMIN"}}
		})
		if err == nil || !strings.Contains(err.Error(), "CAP_SYS_ADMIN") {
			t.Errorf("a capability: %v", err)
		}
	})
}

// With shareProcessNamespace, and from a debugging container, the other's processes are to be seen and to be ended, and not to be looked into.
func TestSharedProcesses(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		p := n.pod(t, "agentjail", func(s *runtimeapi.PodSandboxConfig) {
			s.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_POD
		})
		a, b := p.container("a", "echo started; exec sleep 4321"), p.container("b", idle)
		for _, c := range []*container{a, b} {
			if namespace(t, c.pid(), "pid") != namespace(t, p.pid(), "pid") {
				t.Errorf("%s has processes of its own", c.name)
			}
		}
		env.Eventually(t, "the other's process", func() bool {
			_, code := b.exec("ps | grep '[s]leep 4321'")
			return code == 0
		})
		if out, code := b.exec("cat /proc/$(ps | awk '/[s]leep 4321/ {print $1}')/environ"); code == 0 || !strings.Contains(out, "/environ") {
			t.Errorf("the other's environment: %q", out)
		}
		// A sidecar's reload.
		c := p.container("c", "trap 'echo got >/tmp/hup' HUP; echo $$ >/tmp/pid; while :; do sleep .1; done")
		env.Eventually(t, "a signal from another container's first process", func() bool {
			pid, code := c.exec("cat /tmp/pid")
			if code != 0 {
				return false
			}
			p.container("reload-"+strings.TrimSpace(pid), "kill -HUP "+strings.TrimSpace(pid)+"; "+idle)
			return true
		})
		env.Eventually(t, "the signal", func() bool {
			out, _ := c.exec("cat /tmp/hup")
			return strings.TrimSpace(out) == "got"
		})
		// A debugging container joins the processes of one that has its own.
		q := n.pod(t, "agentjail")
		main := q.container("main", "exec sleep 5432")
		debug := q.container("debug", idle, func(c *runtimeapi.ContainerConfig) {
			c.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_POD, Pid: runtimeapi.NamespaceMode_TARGET, Ipc: runtimeapi.NamespaceMode_POD, TargetId: main.id}
		})
		if namespace(t, debug.pid(), "pid") != namespace(t, main.pid(), "pid") || namespace(t, debug.pid(), "user") != namespace(t, q.pid(), "user") {
			t.Error("the debugging container is elsewhere")
		}
		if out, code := debug.exec("ps | grep '[s]leep 5432'"); code != 0 {
			t.Errorf("the debugging container sees nothing: %s", out)
		}
	})
}

// A sandbox with a kernel of its own holds one container, and in a pod that is the one that holds the namespaces: a further one is refused by
// the name of what it joins, and never runs beside the sandbox.
func TestSandboxedPod(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		runsc, err := engine.Tool("runsc")
		env.Check(t, err)
		under := env.Get(t, engine.UnderTest)
		env.Check(t, os.WriteFile(gvisorPolicy(filepath.Dir(under)), fmt.Appendf(nil, "delegate = %q\n", runsc), 0o644))
		p := n.pod(t, "gvisor")
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid())); err != nil || !strings.HasSuffix(exe, "/runsc") {
			t.Errorf("the pod's first process is %q, %v", exe, err)
		}
		_, err = p.start("main", idle)
		if err == nil || !strings.Contains(err.Error(), "joins namespaces of jail "+p.id) || !strings.Contains(err.Error(), "holds one container") {
			t.Errorf("a container: %v", err)
		}
	})
}
