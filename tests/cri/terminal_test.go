package cri

import (
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// kubectl exec -it and kubectl attach -it: a terminal in the jail, over the streaming server.
func TestPodTerminal(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		p := n.pod(t, "agentjail")
		c := p.container("main", "exec sh", func(c *runtimeapi.ContainerConfig) { c.Tty, c.Stdin = true, true })
		exec, err := c.Exec(callContext(t), &runtimeapi.ExecRequest{ContainerId: c.id, Cmd: []string{"sh", "-c", "tty; test -t 0 && test -t 1 && echo all"}, Stdin: true, Stdout: true, Tty: true})
		env.Check(t, err)
		var out [256][]byte
		env.Check(t, c.channels(exec.Url, nil, &out))
		if got := string(out[1]); !strings.HasPrefix(got, "/dev/pts/") || !strings.HasSuffix(got, "\r\nall\r\n") {
			t.Errorf("exec with a terminal states %q", got)
		}
		attach, err := c.Attach(callContext(t), &runtimeapi.AttachRequest{ContainerId: c.id, Stdin: true, Stdout: true, Tty: true})
		env.Check(t, err)
		out = [256][]byte{}
		if err := c.channels(attach.Url, []byte("tty; echo $((6*7)); exit 3\n"), &out); err != nil {
			t.Fatal(err)
		}
		if got := string(out[1]); !strings.Contains(got, "/dev/pts/0\r\n42\r\n") {
			t.Errorf("attached, the shell states %q", got)
		}
		env.Eventually(t, "the shell's end", func() bool {
			s, err := c.ContainerStatus(callContext(t), &runtimeapi.ContainerStatusRequest{ContainerId: c.id})
			return err == nil && s.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && s.GetStatus().GetExitCode() == 3
		})
	})
}
