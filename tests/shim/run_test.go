package shim

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// hardened tests what `probe identity` printed of a process.
func hardened(t *testing.T, said string) {
	t.Helper()
	w := promise.Identity(t, said)
	promise.Jailed(t, "the process", w)
	promise.OnlyLo(t, "the process", w)
}

func TestRun(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		lost := func(r engine.Result) bool { return r.Code == 0 && (r.Stdout == "" || r.Stderr == "") }
		r := engine.Heard(lost, func() engine.Result {
			return c.Ctr(runArgs(newID(), "--rm", "--", "sh", "-c", "probe identity; echo printed >&2")...)
		})
		if r.Code != 0 || !strings.HasSuffix(r.Stderr, "printed\n") {
			t.Fatal(r)
		}
		hardened(t, r.Stdout)
		id := newID()
		if r := c.Ctr(runArgs(id, "--rm", "--", "sh", "-c", "exit 7")...); r.Code != 7 {
			t.Error(r)
		}
		exited(t, id, `"status": 7`)
		r = engine.Heard(engine.Silent, func() engine.Result {
			return c.Ctr(runArgs(newID(), "--rm", "--privileged", "--", "probe", "identity")...)
		})
		if r.Code != 0 {
			t.Error(r)
		} else {
			hardened(t, r.Stdout)
		}
		// ctr names no host: the jail's is not the machine's.
		id = newID()
		r = engine.Heard(engine.Silent, func() engine.Result { return c.Ctr(runArgs(id, "--rm", "--", "uname", "-n")...) })
		if name := strings.TrimSpace(r.Stdout); name != id {
			t.Errorf("the host's name in the jail %s: %s", id, r)
		}
		nothingLeft(t, c)
	})
}

// exited holds the receipt of a task that was deleted to how its first process ended: the shim is who waits for it.
func exited(t *testing.T, id, want string) {
	t.Helper()
	dir := env.Get(t, engine.Shim)
	if r := engine.Run(t, filepath.Join(dir, "agentjail"), "receipt", "--json", id); r.Code != 0 || !strings.Contains(r.Stdout, want) {
		t.Errorf("no %s: %s", want, r)
	}
}

// What cannot start leaves nothing, and reports why.
func TestRunFails(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		for _, try := range []struct {
			args []string
			want string
		}{
			{[]string{"--", "/no/such/program"}, "no such file or directory"},
			{[]string{"--mount", "type=bind,src=/etc,dst=/host,options=rbind:rw", "--", "true"}, "mount of /etc at /host: refused"},
			{[]string{"--cgroup", "/../../x", "--", "true"}, "refused: linux.cgroupsPath \"/../../x\" leaves its place"},
		} {
			id := newID()
			r := c.Ctr(runArgs(id, append([]string{"--rm"}, try.args...)...)...)
			if r.Code == 0 || !strings.Contains(r.Stderr, try.want) {
				t.Errorf("not %q: %s", try.want, r)
			}
			c.Remove(id)
		}
		nothingLeft(t, c)
	})
}

func TestExec(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		id := startJail(t, c)
		r := readIn(c, id, "probe", "identity")
		if r.Code != 0 {
			t.Fatal(r)
		}
		hardened(t, r.Stdout)
		if r := execIn(c, id, "sh", "-c", "exit 9"); r.Code != 9 {
			t.Error(r)
		}
		if r := execIn(c, id, "/no/such/program"); r.Code == 0 || !strings.Contains(r.Stderr, "no such file or directory") {
			t.Error(r)
		}
		// Several at once: none waits for, or takes, what is another's.
		const all, unread = 8, "nothing"
		said := make(chan string)
		for i := range all {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
				defer cancel()
				r := c.Containerd.Ctr(ctx, "tasks", "exec", "--exec-id", newID(), id, "sh", "-c", fmt.Sprintf("echo %d; exit %d", i, i))
				want := fmt.Sprintf("%d\n", i)
				switch {
				case r.Code != i || r.Stdout != want && r.Stdout != "":
					said <- r.String()
				case r.Stdout == "":
					said <- unread
				default:
					said <- ""
				}
			}()
		}
		lost := 0
		for range all {
			switch s := <-said; s {
			case "":
			case unread:
				lost++
			default:
				t.Error(s)
			}
		}
		// ctr loses what some state (engine.Heard), and not of all.
		if lost == all {
			t.Errorf("the output of all %d is lost", all)
		}
		if s := status(c, id); s != "RUNNING" {
			t.Error(s)
		}
		c.Remove(id)
		nothingLeft(t, c)
	})
}

func TestTerminal(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
		defer cancel()
		id := newID()
		term := engine.OnTerminal(t, 30, 90, c.Command(ctx, runArgs(id, "--rm", "--tty", "--", "sh", "-c",
			`trap 'stty size' WINCH; echo ready; while ! read line; do :; done; echo got $line; read x; exit 5`)...))
		term.Expect("ready")
		term.ExpectAtSize(40, 100, "40 100")
		term.Type("hello\n")
		term.Expect("got hello")
		term.Type("\n") // it waits: ctr may lose what is stated just before the end (engine.Heard)
		if code := term.Wait(); code != 5 {
			t.Errorf("exit status %d: %s", code, term.Said())
		}
		id = startJail(t, c)
		term = engine.OnTerminal(t, 30, 90, c.Command(ctx, "tasks", "exec", "--tty", "--exec-id", "e", id, "sh", "-c", "stty size; tty; read x; exit 6"))
		term.Expect("/dev/pts/")
		term.Type("\n")
		if code := term.Wait(); code != 6 {
			t.Errorf("exit status %d: %s", code, term.Said())
		}
		c.Remove(id)
		nothingLeft(t, c)
	})
}

// Signals, pause, the list of processes, statistics.
func TestTask(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		id := startJail(t, c, "--memory-limit", "100000000")
		c.Must("tasks", "pause", id)
		if s := status(c, id); s != "PAUSED" {
			t.Error(s)
		}
		c.Must("tasks", "resume", id)
		if s := status(c, id); s != "RUNNING" {
			t.Error(s)
		}
		if out := c.Must("tasks", "ps", id); len(strings.Split(out, "\n")) != 2 {
			t.Errorf("not one process: %s", out)
		}
		if out := c.Must("tasks", "metrics", "--format", "json", id); !strings.Contains(out, "100000000") && !strings.Contains(out, "99999744") {
			t.Errorf("no memory limit in %s", out)
		}
		if r := c.Ctr("tasks", "checkpoint", id); r.Code == 0 || !strings.Contains(r.Stderr, "checkpoint") {
			t.Error(r)
		}
		c.Must("tasks", "kill", "--signal", "KILL", id)
		env.Eventually(c, "the end of the task", func() bool { return status(c, id) == "STOPPED" })
		// The delegate's answer about what has ended, by a shim that goes on.
		c.Must("tasks", "ps", id)
		if r := c.Ctr("tasks", "rm", id); !strings.Contains(r.Stderr, "exit code 137") {
			t.Errorf("not the status of a killed task: %s", r)
		}
		c.Remove(id)
		nothingLeft(t, c)
	})
}

// Every event that containerd knows is published, also of a memory limit that was met.
func TestEveryKindOfEventIsPublished(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
		defer cancel()
		watch := engine.OnTerminal(t, 30, 400, c.Command(ctx, "events"))
		id := newID()
		// The command may not watch yet.
		env.Eventually(c, "events are published", func() bool {
			c.Must("namespaces", "label", c.Namespace(), "tried="+time.Now().Format("150405.000"))
			return strings.Contains(watch.Said(), "/namespaces/update")
		})
		event := func(topic string) { watch.Expect(topic + ` {"container_id":"` + id + `"`) }
		// Its first process lives on: a control group of version 1 that is gone reports no memory.
		c.Must(runArgs(id, "-d", "--memory-limit", "20000000", "--", "sh", "-c", "probe memory 100; exec sleep 1000")...)
		event("/tasks/create")
		event("/tasks/start")
		event("/tasks/oom")
		c.Must("tasks", "kill", "-s", "KILL", id)
		event("/tasks/exit")
		c.Must("tasks", "rm", "-f", id)
		event("/tasks/delete")
		c.Remove(id)
		nothingLeft(t, c)
	})
}

// Of jails that end at once, no event is lost, although their shims end with them.
func TestEveryEvent(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
		defer cancel()
		watch := engine.OnTerminal(t, 30, 400, c.Command(ctx, "events"))
		env.Eventually(c, "events are published", func() bool {
			c.Must("namespaces", "label", c.Namespace(), "tried="+time.Now().Format("150405.000"))
			return strings.Contains(watch.Said(), "/namespaces/update")
		})
		var all []string
		for range 6 {
			id := newID()
			all = append(all, id)
			if r := c.Ctr(runArgs(id, "--rm", "--", "true")...); r.Code != 0 {
				t.Error(r)
			}
		}
		for _, id := range all {
			for _, topic := range []string{"/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"} {
				watch.Expect(topic + ` {"container_id":"` + id + `"`)
			}
		}
		nothingLeft(t, c)
	})
}
