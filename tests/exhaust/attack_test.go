package exhaust

import (
	"os"
	"strconv"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestOOMOrder: records of locks are charged to no process, and a process that has many is small. The kernel's order of what
// to kill when memory runs out (oom_score) puts a jail's before all of the host's nevertheless, and a plain container's
// behind a host's process that only uses its own memory.
func TestOOMOrder(t *testing.T) {
	own := make([]byte, 256<<20) // of this process, the host's
	for i := 0; i < len(own); i += os.Getpagesize() {
		own[i] = 1
	}
	for _, c := range []struct {
		name, runtime string
		first         bool
	}{{"control", plain, false}, {"jail", jail, true}} {
		t.Run(c.name, func(t *testing.T) {
			d := docker.For(t)
			id, got := attack(t, d, []string{c.runtime, "-m", "64m"}, "record-locks", "50000")
			t.Logf("locks: %+v", got)
			score := env.Number(t, env.ProcFile(t, firstPID(t, d, id), "oom_score"))
			mine := env.Number(t, env.ProcFile(t, "self", "oom_score"))
			if first := score > mine; first != c.first {
				t.Errorf("score %d, this process's %d: killed first is %v", score, mine, first)
			}
			if !c.first {
				return
			}
			for pid, n := range hostsOwn(t) {
				if n >= score {
					t.Errorf("host's process %s has the score %d, the jail's %d", pid, n, score)
				}
			}
		})
	}
	own[0] = 2
}

// TestNetlinkSockets: the queues of netlink sockets are charged to no process. How many a process has, its open files bound.
func TestNetlinkSockets(t *testing.T) {
	const attempt, most = 18000, 16384
	for _, c := range []struct {
		name    string
		options []string
		bounded bool
	}{
		{"control", []string{plain, "--ulimit", "nofile=20000:20000"}, false},
		{"jail", []string{jail, "--ulimit", "nofile=20000:20000"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := docker.For(t)
			_, got := attack(t, d, c.options, "netlink-sockets", strconv.Itoa(attempt))
			if bounded := got.Got < most && got.Errno == "EMFILE"; bounded != c.bounded || !bounded && got.Got != attempt {
				t.Errorf("%+v of %d", got, attempt)
			}
		})
	}
}

// TestLockedMemory: what a process locks of a file that another jail read first stays on that jail's account. How much, policy bounds.
func TestLockedMemory(t *testing.T) {
	const pieces, most = 32, 4
	for _, c := range []struct {
		name, runtime string
		bounded       bool
	}{{"control", plain, false}, {"jail", jail, true}} {
		t.Run(c.name, func(t *testing.T) {
			d := docker.For(t)
			_, got := attack(t, d, []string{c.runtime}, "locked-memory", strconv.Itoa(pieces))
			if bounded := got.Got <= most && got.Errno != ""; bounded != c.bounded || !bounded && got.Got != pieces {
				t.Errorf("%+v of %d", got, pieces)
			}
		})
	}
}

// TestUDPSockets: what waits in the queues of a jail's sockets comes out of the jail's limit, so that the host's budget
// for all sockets (udp_mem) lasts for the host.
func TestUDPSockets(t *testing.T) {
	const sockets, limit, slack = 1000, 64 << 20, 24 << 20
	for _, c := range []struct {
		name, runtime string
		bounded       bool
	}{{"control", plain, false}, {"jail", jail, true}} {
		t.Run(c.name, func(t *testing.T) {
			if c.runtime == plain && !version1() {
				t.Skip("control groups of version 2 count socket buffers for every container")
			}
			before := udpMemory(t)
			d := docker.For(t)
			id, got := attack(t, d, []string{c.runtime, "-m", "64m"}, "udp-sockets", strconv.Itoa(sockets))
			took := udpMemory(t) - before
			t.Logf("%+v hold %d MiB", got, took>>20)
			if bounded := took <= limit+slack; bounded != c.bounded {
				t.Errorf("the sockets hold %d MiB", took>>20)
			}
			d.Remove(id)
		})
	}
}

// TestTwoAttackersLeaveTheHostWorking: two jails that take all they can at once leave the host's sockets and a third jail working.
func TestTwoAttackersLeaveTheHostWorking(t *testing.T) {
	d := docker.For(t)
	for range 2 {
		for _, a := range [][]string{{"unaccepted", "5000", "1048576", "close"}, {"orphans", "9000", "1"}, {"tcp-sockets", "1000", "1048576"}, {"udp-sockets", "1000"}, {"netlink-sockets", "4000"}, {"record-locks", "50000"}} {
			attack(t, d, []string{jail, "-m", "128m"}, a...)
		}
	}
	datagrams(t)
	stream(t)
	if got := d.Must("run", "--rm", jail, engine.Busybox, "sh", "-c", "probe identity > /dev/null && echo works"); got != "works" {
		t.Errorf("a third jail states %q", got)
	}
}
