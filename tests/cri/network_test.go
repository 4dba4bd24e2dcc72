package cri

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// dial connects to a pod from the node's side of the bridge, as the kubelet's probes do, and returns what the other side states.
func (n *node) dial(address string) (string, error) { return n.exchange(address, "") }

// exchange is dial for a server that is sent something first.
func (n *node) exchange(address, say string) (string, error) {
	var text []byte
	err := n.InNetns(func() error {
		conn, err := net.DialTimeout("tcp", address, env.AnswerWait)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(env.AnswerWait))
		if _, err := io.WriteString(conn, say); err != nil {
			return err
		}
		text, err = io.ReadAll(conn)
		return err
	})
	return strings.TrimSpace(string(text)), err
}

// serve is a script that answers every connection to a port with a word.
func serve(port int, word string) string {
	return fmt.Sprintf("nc -ll -p %d -e echo %s", port, word)
}

// The handler decides on the network. With agentjail-net a pod can be reached from its node and from other pods, on low ports too, and
// has every other protection; with agentjail it is alone, whatever CNI has given it.
func TestPodNetwork(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		open := n.pod(t, "agentjail-net")
		server := open.container("server", serve(80, "hello-pod"))
		client := n.pod(t, "agentjail-net").container("client", idle)
		sealed := n.pod(t, "agentjail")
		hidden := sealed.container("hidden", serve(8080, "hello-nobody"))

		address := net.JoinHostPort(open.ip(), "80")
		env.Eventually(t, "an answer on the pod's address", func() bool {
			out, err := n.dial(address)
			return err == nil && out == "hello-pod"
		})
		if out, code := client.exec("nc -w 60 " + open.ip() + " 80 </dev/null"); code != 0 || out != "hello-pod" {
			t.Errorf("from another pod: %q, exit code %d", out, code)
		}
		if uid := strings.Fields(env.ProcFile(t, server.pid(), "uid_map")); uid[1] == "0" {
			t.Errorf("ids %v", uid)
		}
		env.Eventually(t, "the sealed pod's server", func() bool {
			out, _ := hidden.exec("nc -w 5 127.0.0.1 8080 </dev/null")
			return out == "hello-nobody"
		})
		if sealed.ip() == "" {
			t.Error("CNI gave the sealed pod no address: nothing is shown")
		}
		if out, err := n.dial(net.JoinHostPort(sealed.ip(), "8080")); err == nil {
			t.Errorf("the sealed pod answers %q", out)
		}
		if out, code := hidden.exec("nc -w 2 " + open.ip() + " 80 </dev/null"); code == 0 {
			t.Errorf("the sealed pod reaches %q", out)
		}
		if out, code := client.exec("nc -w 2 " + sealed.ip() + " 8080 </dev/null"); code == 0 {
			t.Errorf("another pod reaches the sealed one: %q", out)
		}
		// The network is the pod's, and still nothing to take apart or to listen in on.
		for _, attempt := range []string{
			"ip link set eth0 down", "ip addr add 10.77.9.9/16 dev eth0", "ip route add 1.2.3.4 dev eth0", "arping -c 1 -w 1 " + open.ip(), "ping -c 1 -W 1 " + open.ip(),
			"echo 1 >/proc/sys/net/ipv4/ip_forward",
		} {
			if out, code := client.exec("(" + attempt + ") 2>&1"); code == 0 {
				t.Errorf("%q succeeds: %s", attempt, out)
			}
		}
	})
}

// The settings that a pod may have for its network are made in it, and others not.
func TestPodSysctls(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		forward := env.Read(t, "/proc/sys/net/ipv4/ip_forward")
		p := n.pod(t, "agentjail-net", func(s *runtimeapi.PodSandboxConfig) {
			s.Linux.Sysctls = map[string]string{"net.ipv4.ip_local_port_range": "40000 41000", "net.ipv4.ip_forward": "1", "net.ipv4.conf.all.route_localnet": "1"}
		})
		c := p.container("main", idle)
		out := c.must("cd /proc/sys/net/ipv4; cat ip_local_port_range ip_unprivileged_port_start conf/all/route_localnet")
		if strings.Join(strings.Fields(out), " ") != "40000 41000 0 0" {
			t.Errorf("settings %q", out)
		}
		if now, _ := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); string(now) != string(forward) {
			t.Errorf("the machine forwards %q, and before %q", now, forward)
		}
	})
}
