package exhaust

import (
	"bytes"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

const (
	// ceiling is how many of a sealed jail's connections wait to be accepted (docs/host-limits.md).
	ceiling = 4096
	// attempt is how many are tried.
	attempt = ceiling + 200
	// connections is how many a jail has with itself, of any kind.
	connections = 8192
	// queue is more than the queue of a socket with a small buffer takes, in bytes.
	queue = 64 << 10
)

// unaccepted are the probe's arguments for connections that it never accepts, and sends so many
// bytes to each. A client that is closed keeps what it could not send, so those are fewer than the
// ones that are reset.
func unaccepted(size int) []string {
	return []string{"unaccepted", strconv.Itoa(attempt), strconv.Itoa(size), "close", "reset", "reset", "reset"}
}

// tcpMemory is what the queues of all of the host's TCP sockets take, in bytes.
func tcpMemory(t *testing.T) int {
	t.Helper()
	return env.Sockstat(t, "TCP", "mem") * os.Getpagesize()
}

// stream passes some bytes between two sockets of the host's. What takes so long does not come.
func stream(t *testing.T) {
	t.Helper()
	const many = 1 << 20
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	env.Check(t, err)
	defer l.Close()
	out, err := net.DialTimeout("tcp4", l.Addr().String(), env.Patience)
	env.Check(t, err)
	defer out.Close()
	in := env.Get(t, l.Accept)
	defer in.Close()
	for _, c := range []net.Conn{in, out} {
		env.Check(t, c.SetDeadline(time.Now().Add(env.Patience)))
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := out.Write(make([]byte, many))
		wrote <- err
	}()
	if n, err := io.ReadFull(in, make([]byte, many)); err != nil {
		t.Errorf("%d of %d bytes between the host's own sockets: %v", n, many, err)
	}
	if err := <-wrote; err != nil {
		t.Errorf("writing between the host's own sockets: %v", err)
	}
}

// TestUnacceptedConnections: a connection that no process accepts is charged to no control group,
// also when its client has ended. So many of a jail's wait and no more, however its clients ended:
// if one end did not count, more would wait. The control's connections are small.
func TestUnacceptedConnections(t *testing.T) {
	const slack = 192 << 20 // of 256 MiB that would wait in large buffers
	for _, c := range []struct {
		name, runtime string
		size, most    int
	}{{"control", plain, 1, attempt}, {"jail", jail, queue, ceiling}} {
		t.Run(c.name, func(t *testing.T) {
			before := tcpMemory(t)
			d := docker.For(t)
			options := []string{c.runtime, "-m", "256m", "--ulimit", "nofile=64:64", "--network=none"}
			id, got := attack(t, d, options, unaccepted(c.size)...)
			took := tcpMemory(t) - before
			t.Logf("%+v hold %d MiB", got, took>>20)
			if c.runtime == jail && inGuest(t, got, took) {
				return
			}
			if got.Got != c.most {
				t.Errorf("%+v: %d of %d connections wait", got, got.Got, attempt)
			}
			if took > slack {
				t.Errorf("they hold %d MiB", took>>20)
			}
			stream(t)
			d.Remove(id)
		})
	}
}

// TestUnacceptedInTheEnginesNetwork: the same for a jail that has its engine's network, whose
// sockets begin with larger buffers.
func TestUnacceptedInTheEnginesNetwork(t *testing.T) {
	const attempt, most = 1200, 1024
	before := tcpMemory(t)
	d := docker.For(t)
	_, got := attack(t, d, []string{jail + "-net", "-m", "64m"}, "unaccepted", strconv.Itoa(attempt), "1", "reset")
	if inGuest(t, got, tcpMemory(t)-before) {
		return
	}
	if got.Got != most {
		t.Errorf("%+v: %d of %d connections wait", got, got.Got, attempt)
	}
}

// TestTCPSockets: what waits in the queues of a jail's connections comes out of its limit, but for
// each socket's first buffers, which the kernel gives whatever the limit is. Those are small.
func TestTCPSockets(t *testing.T) {
	const sockets, limit, slack = 1500, 64 << 20, 48 << 20
	if !version1() {
		t.Skip("control groups of version 2 count socket buffers as memory")
	}
	before := tcpMemory(t)
	d := docker.For(t)
	id, got := attack(t, d, []string{jail, "-m", "256m"}, "tcp-sockets", strconv.Itoa(sockets), strconv.Itoa(4<<20))
	took := tcpMemory(t) - before
	t.Logf("%+v hold %d MiB", got, took>>20)
	if inGuest(t, got, took) {
		return
	}
	if got.Got != sockets || took > limit+slack {
		t.Errorf("%d of %d connections hold %d MiB", got.Got, sockets, took>>20)
	}
	stream(t)
	d.Remove(id)
}

// TestClosedConnectionsAreBounded: the kernel counts the ends of connections that are closed, and whose other end takes
// no more, for the whole host, and resets connections of the host's at tcp_max_orphans. A jail can
// have few of them.
func TestClosedConnectionsAreBounded(t *testing.T) {
	const attempt = connections + 200
	all := env.Read(t, "/proc/sys/net/ipv4/tcp_max_orphans")
	if n, err := strconv.Atoi(strings.TrimSpace(string(all))); err != nil || n < attempt*3/2 {
		t.Skipf("this host may have %s closed connections (tcp_max_orphans), which the test would use up", bytes.TrimSpace(all))
	}
	for _, c := range []struct {
		name, runtime string
		most          int
	}{{"control", plain, attempt}, {"jail", jail, connections}} {
		t.Run(c.name, func(t *testing.T) {
			before := tcpMemory(t)
			d := docker.For(t)
			options := []string{c.runtime, "-m", "512m", "--ulimit", "nofile=16384:16384", "--network=none"}
			id, got := attack(t, d, options, "orphans", strconv.Itoa(attempt), "1")
			t.Logf("%+v", got)
			if c.runtime == jail && inGuest(t, got, tcpMemory(t)-before) {
				return
			}
			if got.Got > c.most || got.Got < c.most*9/10 {
				t.Errorf("%+v: %d of %d closed ends stay", got, got.Got, attempt)
			}
			stream(t)
			d.Remove(id)
		})
	}
}

// TestManyConnections: a server in a jail serves thousands of connections over lo at once.
func TestManyConnections(t *testing.T) {
	const sockets = 4000
	d := docker.For(t)
	_, got := attack(t, d, []string{jail, "-m", "512m"}, "tcp-sockets", strconv.Itoa(sockets), "1")
	if got.Got != sockets {
		t.Errorf("%+v of %d", got, sockets)
	}
}
