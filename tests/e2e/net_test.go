package e2e

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// query sends a line to a server and returns the first line of its answer. The address is one in the engine's network namespace.
func query(d *engine.T, address string) (string, error) {
	var answer []byte
	err := d.InNetns(func() error {
		c, err := net.DialTimeout("tcp", address, env.AnswerWait)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(env.AnswerWait))
		if _, err := c.Write([]byte("ping\n")); err != nil {
			return err
		}
		answer = make([]byte, 5)
		_, err = io.ReadFull(c, answer)
		return err
	})
	return string(answer), err
}

// TestEngineNetwork: where policy leaves the network to the engine, docker's networks work (published ports, names, a network that is
// connected later), and every other ring holds.
func TestEngineNetwork(t *testing.T) {
	needAgentjail(t)
	const user = "e2e-engine-network"
	d := d(t)
	if len(d.Degraded) > 0 {
		t.Skip("this machine's networking is limited:", d.Degraded)
	}
	d.Must("network", "create", user)
	t.Cleanup(func() { d.Docker("network", "rm", user) })
	rt := "--runtime=agentjail-net"
	server := d.Detached(rt, "-p", "127.0.0.1:0:7000", engine.Busybox, "probe", "echo-server", "0.0.0.0:7000")
	env.Eventually(d, "the server", func() bool { return strings.Contains(d.Must("logs", server), "listening") })
	ip := inspect(d, server, "{{.NetworkSettings.IPAddress}}")
	for _, to := range []string{d.Must("port", server, "7000"), ip + ":7000"} {
		if out, err := query(d, to); err != nil || out != "ping\n" {
			t.Errorf("the published port at %s: %q, %v", to, out, err)
		}
	}
	client := d.Detached(rt, "--network", user, "--name", "e2e-net-client", engine.Busybox, "sleep", "3600")
	d.Must("network", "connect", "--alias", "the-server", user, server)
	env.Equal(t, "by name, on a network connected later", d.Must("exec", client, "sh", "-c", "echo ping | nc the-server 7000"), "ping")
	env.Equal(t, "as root on a low port", d.Must("exec", server, "sh", "-c",
		"nc -l -p 80 >/dev/null 2>&1 & until grep -qh ':0050 .* 0A ' /proc/net/tcp*; do kill -0 $! || exit; sleep 0.02; done; kill $! && echo listens"), "listens")

	// Its root writes to hosts, which has what the engine wrote until the start; the resolver stays the engine's.
	for _, id := range []string{server, client} {
		hosts := inspect(d, id, "{{.HostsPath}}")
		before := string(env.Read(t, hosts))
		env.Equal(t, "hosts", sh(d, id, "grep -c \"$(hostname)\" /etc/hosts; echo '5.5.5.5 mine' >>/etc/hosts; grep -c mine /etc/hosts"), "1\n1")
		env.Equal(t, "the engine's own", string(env.Read(t, hosts)), before)
		if r := d.Docker("exec", id, "sh", "-c", "echo x >>/etc/resolv.conf"); r.Code == 0 {
			t.Errorf("the engine's resolver: %s", r)
		}
	}

	for _, id := range []string{server, client} {
		jailed(t, "run", probeIn[who](d, nil, id, "identity"))
		for name, o := range probeIn[map[string]outcome](d, nil, id, "attempts") {
			if !refused(name, o) {
				t.Errorf("%s: %s %s", name, o.Errno, o.Note)
			}
		}
		for what, how := range probeIn[map[string]string](d, nil, id, "attack") {
			t.Errorf("%s: %s", what, how)
		}
	}
	for _, attempt := range []string{"ip link set eth0 down", "ip addr add 172.31.9.9/16 dev eth0", "ip route add 1.2.3.4 dev eth0", "echo 1 >/proc/sys/net/ipv4/ip_forward"} {
		if r := d.Docker("exec", "--privileged", client, "sh", "-c", attempt); r.Code == 0 {
			t.Errorf("%q succeeds: %s", attempt, r)
		}
	}
	out, code := ownVerb(t, "inspect", server)
	if code != 0 || !strings.Contains(out, "the engine's, as policy sets") {
		t.Errorf("inspect: exit code %d: %s", code, out)
	}

	// A jail without network does not come by one through a jail that has it.
	joined := sleeper(d, "--network", "container:"+server)
	sealed(t, "joined without network", probeIn[links](d, nil, joined, "interfaces"))
	if out, err := query(d, ip+":7000"); err != nil || out != "ping\n" {
		t.Errorf("after that the server's network: %q, %v", out, err)
	}
	// One with it shares it.
	second := d.Detached(rt, "--network", "container:"+server, engine.Busybox, "sleep", "3600")
	env.Equal(t, "the joined network's server", d.Must("exec", second, "sh", "-c", "echo ping | nc 127.0.0.1 7000"), "ping")
	if r := d.Docker("exec", second, "sh", "-c", "echo x >>/etc/hosts"); r.Code == 0 {
		t.Errorf("the hosts of another jail: %s", r)
	}
	// The host's and another container's are not the engine's to give.
	plain := d.Detached("--runtime=runc", engine.Busybox, "sleep", "3600")
	for _, network := range []string{"host", "container:" + plain} {
		r := d.Docker("run", "--rm", rt, "--network", network, engine.Busybox, "probe", "interfaces")
		if r.Code == 0 {
			sealed(t, "--network "+network, env.Decode[links](d, strings.TrimSpace(r.Stdout)))
		} else if network == "host" || !strings.Contains(r.Stderr, "refused") {
			t.Errorf("%s: %s", network, r)
		}
	}
	d.Must("restart", "-t", "0", server)
	env.Eventually(d, "the server after a restart", func() bool {
		out, err := query(d, d.Must("port", server, "7000"))
		return err == nil && out == "ping\n"
	})
}
