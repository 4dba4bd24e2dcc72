package cri

import (
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestContract: a pod's container is what every jail is. The columns belong beside those of tests/contract.
func TestContract(t *testing.T) {
	var m promise.Matrix
	onEach(t, func(t *testing.T, n *node) {
		m.Try(t, "CRI, containerd "+n.Containerd.Version(), func(*testing.T) *promise.Engine { return promised(n, "agentjail") })
	})
	t.Logf("what every jail is, by engine:\n%s", &m)
}

// promised starts each container in a pod of its own: those of one pod share ids and namespaces, as pods do.
func promised(n *node, handler string) *promise.Engine {
	return &promise.Engine{
		Start: func(t testing.TB, command ...string) *promise.Jail {
			c := n.alone(t, handler, false, command)
			return &promise.Jail{
				ID: c.id, PID: c.pid(), Exec: c.result,
				Kill: func() int {
					// Without a grace period: SIGKILL.
					if _, err := c.StopContainer(callContext(c.t), &runtimeapi.StopContainerRequest{ContainerId: c.id}); err != nil {
						t.Error(err)
					}
					return int(c.wait())
				},
				Remove: func() {
					if _, err := c.RemoveContainer(callContext(c.t), &runtimeapi.RemoveContainerRequest{ContainerId: c.id}); err != nil {
						t.Error(err)
					}
				},
			}
		},
		Run: func(t testing.TB, privileged bool, command ...string) engine.Result {
			c := n.alone(t, handler, privileged, command)
			defer c.remove(c.pod.id)
			r := engine.Result{Program: "run", Args: command, Code: int(c.wait())}
			// The last of the log may be written after the container's end is known. What succeeds prints something.
			env.Eventually(c.t, "what it prints", func() bool {
				r.Stdout, r.Stderr = c.printed()
				return r.Code != 0 || r.Stdout != ""
			})
			return r
		},
		Query:  promise.Query,
		Lacks:  promise.PodsLack,
		Places: []string{filepath.Join(n.State(), "io.containerd.runtime.v2.task", criNamespace, "%s")},
	}
}

// alone starts a container in a new pod that requests what a jail does not get: a device, and to outlive others when memory runs out.
func (n *node) alone(t testing.TB, handler string, privileged bool, command []string) *container {
	p := n.pod(t.(*testing.T), handler, func(c *runtimeapi.PodSandboxConfig) { c.Linux.SecurityContext.Privileged = privileged })
	return p.container("main", "", func(c *runtimeapi.ContainerConfig) {
		c.Command = command
		c.Devices = []*runtimeapi.Device{{HostPath: "/dev/kmsg", ContainerPath: "/dev/kmsg", Permissions: "rwm"}}
		c.Linux.Resources.OomScoreAdj = 2 // the kubelet's least for a pod that may burst
		c.Linux.SecurityContext.Privileged = privileged
		if privileged {
			c.Linux.SecurityContext.MaskedPaths, c.Linux.SecurityContext.ReadonlyPaths = nil, nil
		}
	})
}

// result is an exec's, without a shell between.
func (c *container) result(command ...string) engine.Result {
	r, err := c.ExecSync(callContext(c.t), &runtimeapi.ExecSyncRequest{ContainerId: c.id, Cmd: command, Timeout: 60})
	if err != nil {
		return engine.Result{Program: "exec", Args: command, Code: -1, Stderr: err.Error()}
	}
	return engine.Result{Program: "exec", Args: command, Code: int(r.ExitCode), Stdout: string(r.Stdout), Stderr: string(r.Stderr)}
}

// printed is the container's log by stream. A line of the log is a time, the stream, P or F (a part of a line, or its end), and the text
// (kubernetes/community, contributors/design-proposals/node/kubelet-cri-logging.md).
func (c *container) printed() (stdout, stderr string) {
	for line := range strings.Lines(c.log()) {
		f := strings.SplitN(line, " ", 4)
		if len(f) != 4 {
			c.t.Errorf("the log has the line %q", line)
			continue
		}
		text := f[3]
		if f[2] == "P" {
			text = strings.TrimSuffix(text, "\n")
		}
		if f[1] == "stdout" {
			stdout += text
		} else {
			stderr += text
		}
	}
	return stdout, stderr
}
