package cri

import (
	"encoding/binary"
	"fmt"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// forward sends bytes to a port of the pod as kubectl port-forward does, and returns what comes back, and the failure that
// the streaming server reports.
func (p *pod) forward(port int, send []byte) (answer, failure string) {
	p.t.Helper()
	r, err := p.PortForward(callContext(p.t), &runtimeapi.PortForwardRequest{PodSandboxId: p.id, Port: []int32{int32(port)}})
	env.Check(p.t, err)
	var out [256][]byte
	if err := p.channels(fmt.Sprintf("%s?port=%d", r.Url, port), send, &out); err != nil {
		p.t.Fatalf("forwarding port %d: %v", port, err)
	}
	// Both channels of a port begin with its number.
	for i, text := range out[:2] {
		if len(text) < 2 || int(binary.LittleEndian.Uint16(text)) != port {
			p.t.Fatalf("channel %d states %q", i, text)
		}
	}
	return string(out[0][2:]), string(out[1][2:])
}

// kubectl port-forward reaches what listens in a pod of agentjail-net, and nothing in one of agentjail, although the
// same port answers inside.
func TestPortForward(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		const port = 8081
		script := fmt.Sprintf(`nc -ll -p %d -e sh -c 'read line; echo "heard $line"'`, port)
		for _, handler := range []string{"agentjail-net", "agentjail"} {
			p := n.pod(t, handler)
			c := p.container("server", script)
			env.Eventually(t, "the pod's own server", func() bool {
				out, _ := c.exec(fmt.Sprintf("echo inside | nc -w 5 127.0.0.1 %d", port))
				return out == "heard inside"
			})
			answer, failure := p.forward(port, []byte("outside\n"))
			if handler == "agentjail" {
				if answer != "" || failure == "" {
					t.Errorf("%s: the port can be reached: %q, failure %q", handler, answer, failure)
				}
				continue
			}
			if answer != "heard outside\n" || failure != "" {
				t.Errorf("%s: answer %q, failure %q", handler, answer, failure)
			}
			if _, failure := p.forward(port+1, nil); failure == "" {
				t.Errorf("%s: no process listens on the next port, and no failure is reported", handler)
			}
		}
	})
}
