package e2e

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// echoed connects from the engine's network, and reports whether an answer comes back: Docker's proxy accepts for every container.
func echoed(d *engine.T, address string) (err error) {
	var c net.Conn
	if err := d.InNetns(func() (err error) { c, err = net.DialTimeout("tcp", address, env.AnswerWait); return err }); err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(env.AnswerWait)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("ping")); err != nil {
		return err
	}
	got := make([]byte, 4)
	if _, err := c.Read(got); err != nil {
		return err
	}
	if string(got) != "ping" {
		return fmt.Errorf("the answer is %q", got)
	}
	return nil
}

// echoer starts a container with servers at ports 7000 and 7001 of all its addresses, both published by Docker.
func echoer(d *engine.T, args ...string) string {
	d.Helper()
	id := d.Detached(append(args, "-p", "127.0.0.1:0:7000", "-p", "127.0.0.1:0:7001", engine.Busybox, "sh", "-c", "probe echo-server 0.0.0.0:7001 & exec probe echo-server 0.0.0.0:7000")...)
	env.Eventually(d, "the servers", func() bool { return strings.Count(d.Must("logs", id), "listening") == 2 })
	return id
}

// published starts a jail whose port 7000 is published, and returns where: by Docker's -p, which leads there up to Docker 27, or by
// agentjail.
func published(d *engine.T) (id, to string) {
	d.Helper()
	if d.Edition().Newest {
		return echoer(d, "--runtime=agentjail-ports", "--label", "dev.agentjail.network.publish=17000:7000"), "127.0.0.1:17000"
	}
	id = echoer(d, "--runtime=agentjail-ports")
	return id, d.Must("port", id, "7000")
}

// TestDockerPublish: docker -p leads to a jail's server, as it does under runc, where policy lets the port be published, and to no other.
// Docker's own view of its network (inspect, stats, connect, disconnect) is a container's that is no jail.
func TestDockerPublish(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const second = "e2e-ports"
	d.Must("network", "create", second)
	t.Cleanup(func() { d.Docker("network", "rm", second) })
	for _, runtime := range []string{"runc", "agentjail-ports"} {
		jail := runtime != "runc"
		id := echoer(d, "--runtime="+runtime)
		for port, want := range map[string]bool{"7000": true, "7001": !jail} {
			for _, to := range []string{d.Must("port", id, port), inspect(d, id, "{{.NetworkSettings.IPAddress}}") + ":" + port} {
				if err := echoed(d, to); (err == nil) != want {
					t.Errorf("%s: %s, port %s: %v", runtime, to, port, err)
				}
			}
		}
		if r := d.Docker("stats", "--no-stream", "--format", "{{.NetIO}}", id); r.Code != 0 || strings.HasPrefix(r.Stdout, "0B") {
			t.Errorf("%s: stats: %s", runtime, r)
		}
		d.Must("network", "connect", second, id)
		other := inspect(d, id, "{{(index .NetworkSettings.Networks \""+second+"\").IPAddress}}")
		env.Eventually(d, runtime+" on a second network", func() bool { return echoed(d, other+":7000") == nil })
		d.Must("network", "disconnect", second, id)
		if err := echoed(d, other+":7000"); err == nil {
			t.Errorf("%s: on a network that was disconnected it answers", runtime)
		}
		if jail {
			sealed(t, "the jail", probeIn[links](d, nil, id, "interfaces"))
			out, code := ownVerb(t, "inspect", id)
			if code != 0 || !strings.Contains(out, "only lo; names by helper") || !strings.Contains(out, " in "+inspect(d, id, "{{.NetworkSettings.SandboxKey}}")) && !strings.Contains(out, " in /run/docker/netns/") {
				t.Errorf("inspect: %d\n%s", code, out)
			}
		}
		d.Must("restart", "-t", "0", id)
		env.Eventually(d, "the server", func() bool { return echoed(d, d.Must("port", id, "7000")) == nil })
		// No one else can be given the address there, as on the default network, where other tests have servers.
		d.Must("network", "connect", second, id)
		to := inspect(d, id, "{{(index .NetworkSettings.Networks \""+second+"\").IPAddress}}") + ":7000"
		// Not at once: the kernel remembers for a while that no host had that address, which was requested above.
		env.Eventually(d, runtime+" after a restart", func() bool { return echoed(d, to) == nil })
		d.Must("rm", "-f", id)
		if err := echoed(d, to); err == nil {
			t.Errorf("%s: after its end it answers", runtime)
		}
	}
}

// TestDockerPublishHelperKilled: a port of a jail whose helper was killed does not answer, and another helper has the port again, in the
// same network of Docker's.
func TestDockerPublishHelperKilled(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	id, to := published(d)
	env.Check(t, echoed(d, to))
	first := engine.Helper(t, id).Pid
	netns := func(pid int) string { return env.ProcLink(t, pid, "ns/net") }
	where := netns(first)
	env.Check(t, unix.Kill(first, unix.SIGKILL))
	env.Eventually(d, "its end", func() bool { return errors.Is(unix.Kill(first, 0), unix.ESRCH) })
	if err := echoed(d, to); err == nil {
		t.Error("without a helper it answers")
	}
	if out, code := ownVerb(t, "inspect", id); code == 0 || !strings.Contains(out, "agentjail network restart") {
		t.Errorf("inspect: %d\n%s", code, out)
	}
	// What agentjail publishes itself is in its caller's network.
	if err := d.InNetns(func() error {
		if out, code := ownVerb(t, "network", "restart", id); code != 0 {
			return fmt.Errorf("%d: %s", code, out)
		}
		return nil
	}); err != nil {
		t.Fatalf("network restart: %v", err)
	}
	if err := echoed(d, to); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if now := netns(engine.Helper(t, id).Pid); now != where {
		t.Errorf("the new helper is in %s, and was in %s", now, where)
	}
}

// TestDockerPublishNowhere: where Docker has made no network, the report states that its ports do not answer; where policy publishes none,
// none answers.
func TestDockerPublishNowhere(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	id := d.Detached("--runtime=agentjail-ports", "--network=none", engine.Busybox, "sleep", "3600")
	env.Contain(t, "the report", reportOf(t, id), "ports that it publishes do not answer")
	id = echoer(d, "--runtime=agentjail-names")
	for _, to := range []string{d.Must("port", id, "7000"), inspect(d, id, "{{.NetworkSettings.IPAddress}}") + ":7000"} {
		if err := echoed(d, to); err == nil {
			t.Errorf("%s answers", to)
		}
	}
}
