package inside

import (
	"net"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// interfaces lists a jail's network interfaces: a jail's /sys has none.
const interfaces = "cut -s -d: -f1 /proc/net/dev | tr -d ' '"

// TestNetwork: whatever Docker 26 plumbs in, and whenever, a jail starts with nothing but lo and
// nothing goes out.
func TestNetwork(t *testing.T) {
	need(t, "apparmor")
	network := "n-" + strings.ToLower(t.Name())
	docker(t, "network", "create", network)
	defer docker(t, "network", "rm", network)
	gateway := docker(t, "network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", network)
	each(t, func(t *testing.T, runtime string) {
		for _, options := range [][]string{nil, {"-p", "8088:80"}} { // the others: TestNetworks in tests/e2e
			if runtime != "--runtime="+runtimes[0] && len(options) > 0 {
				continue // the delegate has no influence in it
			}
			env.Equal(t, strings.Join(options, " "), docker(t, append(append([]string{"run", "--rm", runtime}, options...), image, "sh", "-c", interfaces)...), "lo")
		}
		id := detached(t, runtime)
		run(t, "docker", "network", "connect", network, id)
		// A server of the machine's that answers every client.
		l, err := net.Listen("tcp", gateway+":0")
		env.Check(t, err)
		defer l.Close()
		seen := make(chan struct{}, 1)
		go func() {
			if c, err := l.Accept(); err == nil {
				seen <- struct{}{}
				c.Close()
			}
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		env.Equal(t, "what gets out", docker(t, "exec", id, "sh", "-c",
			"ping -c 1 -W 1 "+gateway+" >/dev/null 2>&1 && echo ping; nc -w 2 "+gateway+" "+port+" </dev/null 2>/dev/null && echo connection; echo nothing"), "nothing")
		env.Equal(t, "connections that the machine saw", len(seen), 0)
		// Inside it works; the server states when it listens.
		env.Equal(t, "a server on lo", docker(t, "exec", id, "sh", "-c",
			"mkfifo /tmp/ready; probe echo-server 127.0.0.1:81 >/tmp/ready & read -r ready </tmp/ready; echo $ready; echo hello | nc 127.0.0.1 81; kill $!"), "listening\nhello")
	})
}
