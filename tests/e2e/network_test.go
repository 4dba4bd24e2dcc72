package e2e

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// links is the probe's word on the network.
type links struct {
	Links []struct {
		Name  string   `json:"name"`
		Up    bool     `json:"up"`
		Addrs []string `json:"addrs"`
	} `json:"links"`
	Routes []string `json:"routes"`
}

// sealed tests that a jail has no way out: no interface but lo is up or has an address, no route leads anywhere.
func sealed(t testing.TB, what string, l links) {
	t.Helper()
	lo := false
	for _, i := range l.Links {
		if i.Name == "lo" {
			lo = i.Up
			continue
		}
		if i.Up || len(i.Addrs) > 0 {
			t.Errorf("%s: interface %s is up (%v) with addresses %v", what, i.Name, i.Up, i.Addrs)
		}
	}
	if !lo {
		t.Errorf("%s: lo is not up", what)
	}
	if len(l.Routes) > 0 {
		t.Errorf("%s: routes %v", what, l.Routes)
	}
}

// bridge gives the gateway address of a docker network: the host, from a container's view.
func gateway(d *engine.T, network string) string {
	d.Helper()
	return d.Must("network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", network)
}

// listenOnHost listens on an address of the engine's network namespace, where the host's end of its bridges is, and
// returns the port. It counts connections.
func listenOnHost(d *engine.T, address string) (port int, count func() int) {
	d.Helper()
	var l net.Listener
	err := d.InNetns(func() (err error) {
		l, err = net.Listen("tcp", address+":0")
		return err
	})
	env.Check(d, err)
	d.Cleanup(func() { l.Close() })
	seen := make(chan struct{}, 100)
	go env.Serve(l, func(net.Conn) { seen <- struct{}{} })
	return l.Addr().(*net.TCPAddr).Port, func() int { return len(seen) }
}

// TestNetworks: whatever network docker is to connect, the jail has lo only, and the host's services stay out of reach.
func TestNetworks(t *testing.T) {
	const user = "e2e-user-defined"
	shared := docker.For(t)
	if len(shared.Degraded) > 0 {
		t.Skip("this machine's networking is limited:", shared.Degraded)
	}
	shared.Must("network", "create", user)
	t.Cleanup(func() { shared.Docker("network", "rm", user) })
	for _, c := range []struct{ name, network, host string }{
		{"default bridge", "bridge", gateway(shared, "bridge")},
		{"user-defined", user, gateway(shared, user)},
		{"none", "none", "127.0.0.1"},
		{"host", "host", "127.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := docker.For(t)
			port, count := listenOnHost(d, c.host)
			id := sleeper(d, "--network", c.network)
			sealed(t, c.network, probeIn[links](d, nil, id, "interfaces"))
			target := fmt.Sprintf("tcp,%s:%d", c.host, port)
			for to, o := range probeIn[map[string]outcome](d, nil, id, "connect", target, "tcp,10.0.0.1:80", "udp,127.0.0.11:53", "tcp,127.0.0.11:53", "tcp,[2001:db8::1]:80") {
				if o.Errno == "" {
					t.Errorf("%s: the jail reaches %s", c.network, to)
				}
			}
			env.Equal(t, "connections that the host saw", count(), 0)
			// The jail's own servers work.
			d.Must("exec", "-d", id, "probe", "echo-server", "127.0.0.1:7000")
			env.Eventually(d, "the jail's own server", func() bool {
				return d.Docker("exec", id, "sh", "-c", "echo ping | nc 127.0.0.1 7000").Stdout == "ping\n"
			})
		})
	}
}

// TestNetworkConnectLater: an interface that docker plugs in while the jail runs stays dead.
func TestNetworkConnectLater(t *testing.T) {
	const user = "e2e-connect-later"
	d := docker.For(t)
	d.Must("network", "create", user)
	t.Cleanup(func() { d.Docker("network", "rm", user) })
	id := sleeper(d)
	d.Must("network", "connect", user, id)
	port, count := listenOnHost(d, gateway(d, user))
	for to, o := range probeIn[map[string]outcome](d, nil, id, "connect", fmt.Sprintf("tcp,%s:%d", gateway(d, user), port), "tcp,127.0.0.11:53", "udp,127.0.0.11:53") {
		if o.Errno == "" {
			t.Errorf("after docker network connect the jail reaches %s", to)
		}
	}
	env.Equal(t, "connections that the host saw", count(), 0)
	d.Must("network", "disconnect", user, id)
	env.Equal(t, "the jail goes on", sh(d, id, "echo yes"), "yes")
}

// TestEmbeddedDNS: docker's name server on a user-defined network, inside the container's own network namespace, would
// carry questions and answers out of the jail.
func TestEmbeddedDNS(t *testing.T) {
	const user = "e2e-dns"
	d := docker.For(t)
	d.Must("network", "create", user)
	t.Cleanup(func() { d.Docker("network", "rm", user) })
	id := sleeper(d, "--network", user, "--name", "e2e-dns-name")
	if r := d.Docker("exec", id, "nslookup", "e2e-dns-name", "127.0.0.11"); r.Code == 0 {
		t.Errorf("the embedded name server answers: %s", r)
	}
}

// TestPublishedPort: -p starts, and the port does not answer.
func TestPublishedPort(t *testing.T) {
	d := docker.For(t)
	id := startJail(d, "-p", "127.0.0.1:0:7000", engine.Busybox, "probe", "echo-server", "0.0.0.0:7000")
	env.Eventually(d, "the server", func() bool { return strings.Contains(d.Must("logs", id), "listening") })
	address := d.Must("port", id, "7000")
	ip := inspect(d, id, "{{.NetworkSettings.IPAddress}}")
	for _, to := range []string{address, ip + ":7000"} {
		err := d.InNetns(func() error {
			c, err := net.DialTimeout("tcp", to, time.Second)
			if err != nil {
				return err
			}
			defer c.Close()
			// docker's proxy accepts for the container: what counts is whether an answer comes back.
			_ = c.SetDeadline(time.Now().Add(time.Second))
			if _, err := c.Write([]byte("ping")); err != nil {
				return err
			}
			_, err = c.Read(make([]byte, 4))
			return err
		})
		if err == nil {
			t.Errorf("the port answers at %s", to)
		}
	}
}

// TestJoinJail: a jail that joins another one's network shares its lo, and nothing else of it.
func TestJoinJail(t *testing.T) {
	d := docker.For(t)
	first := startJail(d, engine.Busybox, "probe", "echo-server", "127.0.0.1:7000")
	env.Eventually(d, "the server", func() bool { return strings.Contains(d.Must("logs", first), "listening") })
	second := sleeper(d, "--network", "container:"+first)
	env.Equal(t, "the other's server", sh(d, second, "echo ping | nc 127.0.0.1 7000"), "ping")
	sealed(t, "the joined network", probeIn[links](d, nil, second, "interfaces"))
	if processes := sh(d, second, "ls /proc | grep '^[0-9]' | tr '\\n' ' '"); strings.Count(processes, " ") > 4 {
		t.Errorf("the joining jail sees processes %s", processes)
	}
}

// TestJoinOfNoJailIsRefused: the network of a container that is no jail is not to be had.
func TestJoinOfNoJailIsRefused(t *testing.T) {
	d := docker.For(t)
	other := d.Detached("--runtime=runc", engine.Busybox, "probe", "echo-server", "0.0.0.0:7000")
	env.Eventually(d, "the server", func() bool { return strings.Contains(d.Must("logs", other), "listening") })
	r := d.Docker("run", "--rm", jail, "--network", "container:"+other, engine.Busybox, "sh", "-c", "probe interfaces; probe connect tcp,127.0.0.1:7000")
	if r.Code != 0 {
		t.Logf("refused, which is one of two good answers: %s", strings.TrimSpace(r.Stderr))
		return
	}
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	sealed(t, "joined", env.Decode[links](d, lines[0]))
	if env.Decode[map[string]outcome](d, lines[1])["tcp,127.0.0.1:7000"].Errno == "" {
		t.Error("the jail reaches a server in the other container's network")
	}
}

// TestAbstractSocket: sockets without a file, which a network namespace shares, are the host's own
// (CVE-2020-15257: the shim listened on one).
func TestAbstractSocket(t *testing.T) {
	d := docker.For(t)
	name := fmt.Sprintf("e2e-%d", os.Getpid())
	var l net.Listener
	err := d.InNetns(func() (err error) {
		l, err = net.Listen("unix", "@"+name)
		return err
	})
	env.Check(t, err)
	t.Cleanup(func() { l.Close() })
	got := probe[map[string]outcome](d, []string{"--network", "host", "-e", "PROBE_ABSTRACT=@" + name}, "attempts", "abstract_shim_socket")
	if o := got["abstract_shim_socket"]; o.Errno != "ECONNREFUSED" && !refused("", o) {
		t.Errorf("the jail connects to the host's socket: %+v", o)
	}
}
