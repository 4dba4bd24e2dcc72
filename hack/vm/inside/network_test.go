package inside

import (
	"strings"
	"testing"
)

// TestNetwork: whatever Docker 26 plumbs in, and whenever, nothing but lo is there and nothing goes out.
func TestNetwork(t *testing.T) {
	need(t, "")
	network := "n-" + strings.ToLower(t.Name())
	docker(t, "network", "create", network)
	defer docker(t, "network", "rm", network)
	gateway := docker(t, "network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", network)
	each(t, func(t *testing.T, runtime string) {
		for _, options := range [][]string{nil, {"--network=" + network}, {"--network=none"}, {"--network=host"}, {"-p", "8088:80"}} {
			id := detached(t, append([]string{runtime}, options...)...)
			eq(t, strings.Join(options, " "), docker(t, "exec", id, "ls", "/sys/class/net"), "lo")
		}
		id := detached(t, runtime)
		run(t, "docker", "network", "connect", network, id)
		eq(t, "after network connect", docker(t, "exec", id, "ls", "/sys/class/net"), "lo")
		if r := run(t, "docker", "exec", id, "ping", "-c", "1", "-W", "1", gateway); r.code == 0 {
			t.Error("the gateway answers")
		}
		if r := run(t, "docker", "exec", id, "nc", "-z", "-w", "2", gateway, "1"); r.code == 0 {
			t.Error("the gateway can be reached")
		}
		eq(t, "a server on lo", docker(t, "exec", id, "sh", "-c", "(echo hello | nc -l -p 81 -s 127.0.0.1 >/dev/null) & for i in 1 2 3 4 5 6 7 8 9; do nc -w 5 127.0.0.1 81 </dev/null && break; sleep 1; done"), "hello")
	})
}
