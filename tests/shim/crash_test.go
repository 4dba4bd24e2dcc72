package shim

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// Jails outlive their daemon, whether it is stopped or killed, and the next one finds them: it can exec, sees what is
// printed, and learns of what ended meanwhile.
func TestDaemonRestart(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		for _, away := range []func() error{c.Stop, c.Kill} {
			stays, ends := startJail(t, c), startJail(t, c)
			env.Check(t, away())
			j := record(t, c, ends)
			env.Check(t, unix.Kill(j.InitPid, unix.SIGTERM))
			_ = unix.Kill(j.InitPid, unix.SIGKILL) // the first process of a jail need not heed the other
			env.Eventually(c, "the end of a jail", func() bool { return !j.InitAlive() })
			env.Check(t, c.Start())
			if s := status(c, stays); s != "RUNNING" {
				t.Errorf("the jail that stays is %q", s)
			}
			// Releases since 1.7 remove at their start what has no process any more.
			removes := !strings.HasPrefix(c.Version(), "1.6.")
			env.Eventually(c, "the ended jail is known as such", func() bool { s := status(c, ends); return s == "STOPPED" || removes && s == "" })
			if r := readIn(c, stays, "probe", "identity"); r.Code != 0 {
				t.Error(r)
			} else {
				hardened(t, r.Stdout)
			}
			if r := c.Ctr("tasks", "rm", ends); !strings.Contains(r.Stderr, "exit code 137") && !(removes && strings.Contains(r.Stderr, "not found")) {
				t.Errorf("its status is lost: %s", r)
			}
			c.Remove(stays)
			c.Remove(ends)
			nothingLeft(t, c)
		}
	})
}

// A shim that is killed takes its jail with it: the daemon has the rest cleaned up by the shim's program.
func TestShimKilled(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		id := startJail(t, c)
		j := record(t, c, id)
		env.Check(t, unix.Kill(shimOf(t, c, id), unix.SIGKILL))
		env.Eventually(c, "the end of the jail", func() bool { return !j.InitAlive() })
		env.Eventually(c, "the daemon has noticed", func() bool { s := status(c, id); return s == "" || s == "STOPPED" })
		c.Remove(id)
		nothingLeft(t, c)
	})
}

// The same while the daemon is away.
func TestShimAndDaemonKilled(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		id := startJail(t, c)
		j := record(t, c, id)
		shim := shimOf(t, c, id)
		env.Check(t, c.Kill())
		env.Check(t, unix.Kill(shim, unix.SIGKILL))
		env.Check(t, c.Start())
		env.Eventually(c, "the end of the jail", func() bool { return !j.InitAlive() })
		c.Remove(id)
		nothingLeft(t, c)
	})
}
