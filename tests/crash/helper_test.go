package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pidfd"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/env"
)

// named are the global options of calls for a jail whose network is by name, so that it has a helper process.
func named(t *testing.T) []string {
	t.Helper()
	conf := filepath.Join(filepath.Dir(bin), "names.toml")
	env.Check(t, os.WriteFile(conf, []byte("[network]\nmode = \"names\"\nallow = [\"api.example.test\"]\nservers = [\"192.0.2.53\"]\n"), 0o600))
	return []string{"--config", conf}
}

// TestKilledWithHelper kills create while it starts the jail's helper, and start while and after it gives that its work: neither the helper nor its control groups outlive what an
// engine or an operator does then.
func TestKilledWithHelper(t *testing.T) {
	opts := named(t)
	create := func(id string) {
		if code, text := agentjail(t, nil, append(opts, "create", "--bundle", bundle, id)...); code != 0 {
			t.Fatalf("create: status %d\n%s", code, text)
		}
	}
	for _, point := range []string{"create.helping", "create.helped", "create.placing"} {
		t.Run(point, func(t *testing.T) {
			id := fmt.Sprintf("crash%d-%s", os.Getpid(), strings.ReplaceAll(point, ".", "-"))
			defer cleanUp(t, id)
			if code, text := agentjail(t, []string{"AGENTJAIL_TEST_CRASH=" + point}, append(opts, "create", "--bundle", bundle, id)...); code != -1 {
				t.Fatalf("create was not killed: status %d\n%s", code, text)
			}
			if helperOf(id) == 0 {
				t.Fatal("no helper is on record, so that this test looks at nothing")
			}
		})
	}
	t.Run("never started", func(t *testing.T) {
		id := fmt.Sprintf("crash%d-never", os.Getpid())
		defer cleanUp(t, id)
		create(id)
		pid := helperOf(id)
		if seccomp, capabilities := env.Status(t, pid, "Seccomp"), env.Status(t, pid, "CapEff"); seccomp != "2" || capabilities != "0000000000000000" {
			t.Errorf("the helper of a jail that is not started, process %d, is not confined: %s, %s", pid, seccomp, capabilities)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		env.Check(t, err)
		defer unix.Close(fd)
		if code, text := agentjail(t, nil, append(opts, "delete", "--force", id)...); code != 0 {
			t.Fatalf("delete: status %d\n%s", code, text)
		}
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n != 1 {
			t.Errorf("the helper, process %d, runs after delete: %v", pid, err)
		}
	})
	t.Run("ended before start", func(t *testing.T) {
		id := fmt.Sprintf("crash%d-before", os.Getpid())
		defer cleanUp(t, id)
		create(id)
		first := helperOf(id)
		killHelper(t, first)
		if code, text := agentjail(t, nil, append(opts, "start", id)...); code != 0 {
			t.Fatalf("start: status %d\n%s", code, text)
		}
		if now := helperOf(id); now == 0 || now == first {
			t.Errorf("the helper that was killed is %d, and the one that serves %d", first, now)
		}
	})
	t.Run("never serves", func(t *testing.T) {
		id := fmt.Sprintf("crash%d-unserved", os.Getpid())
		defer cleanUp(t, id)
		create(id)
		env.Check(t, unix.Kill(helperOf(id), unix.SIGSTOP))
		if code, text := agentjail(t, nil, append(opts, "start", id)...); code != 1 || !strings.Contains(text, "the network by name: sending the helper") {
			t.Errorf("start with a helper that does not answer: status %d\n%s", code, text)
		}
		// What was started meanwhile is killed.
		if out, err := command(nil, append(opts, "state", id)...).Output(); err != nil || !strings.Contains(string(out), `"status": "stopped"`) {
			t.Errorf("after it: %v\n%s", err, out)
		}
	})
	for _, point := range []string{"start.helping", "start.served"} {
		t.Run(point, func(t *testing.T) { toldByKilled(t, opts, point) })
	}
	t.Run("start.sealed", func(t *testing.T) {
		id := fmt.Sprintf("crash%d-helper", os.Getpid())
		defer cleanUp(t, id)
		create(id)
		if code, text := agentjail(t, []string{"AGENTJAIL_TEST_CRASH=start.sealed"}, append(opts, "start", id)...); code != -1 {
			t.Fatalf("start was not killed: status %d\n%s", code, text)
		}
		helps := func() (out string) {
			for _, l := range left(id) {
				if strings.Contains(l, "agentjail-egress") {
					out += l + "\n"
				}
			}
			return out
		}
		first := helps()
		if !strings.Contains(first, "process: ") {
			t.Fatalf("no helper is left, so that this test looks at nothing:\n%s", strings.Join(left(id), "\n"))
		}
		// A second start does not know whether the helper serves, and replaces it.
		if code, text := agentjail(t, nil, append(opts, "start", id)...); code != 0 {
			t.Fatalf("start again: status %d\n%s", code, text)
		}
		if second := helps(); strings.Count(second, "process: ") != strings.Count(first, "process: ") {
			t.Errorf("helpers after a second start:\n%safter the first:\n%s", second, first)
		}
	})
	n := 20
	if testing.Short() {
		n = 4
	}
	for i := range n {
		id := fmt.Sprintf("crash%d-helper%d", os.Getpid(), i)
		args := append(opts, "create", "--bundle", bundle, id)
		if i%2 == 0 {
			create(id)
			args = append(opts, "start", id)
		}
		cmd := command(nil, args...)
		env.Check(t, cmd.Start())
		env.AnyMoment(30 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		cleanUp(t, id)
		if t.Failed() {
			t.Fatalf("after kill %d", i)
		}
	}
}

// toldByKilled kills a start that has sent the helper its work, or is about to. A second one treats that helper as one that does not serve.
func toldByKilled(t *testing.T, opts []string, point string) {
	id := fmt.Sprintf("crash%d-%s", os.Getpid(), strings.ReplaceAll(point, ".", "-"))
	defer cleanUp(t, id)
	if code, text := agentjail(t, nil, append(opts, "create", "--bundle", bundle, id)...); code != 0 {
		t.Fatalf("create: status %d\n%s", code, text)
	}
	first := helperOf(id)
	if code, text := agentjail(t, []string{"AGENTJAIL_TEST_CRASH=" + point}, append(opts, "start", id)...); code != -1 {
		t.Fatalf("start was not killed: status %d\n%s", code, text)
	}
	// The jail's program may have been started by then: a second start reports it, and has the jail served all the same.
	if code, text := agentjail(t, nil, append(opts, "start", id)...); code != 0 && (point != "start.served" || !strings.Contains(text, "running")) {
		t.Fatalf("start again: status %d\n%s", code, text)
	}
	r, err := helper.Load(stateOf(id))
	if err != nil || r == nil || !r.Alive() || r.Answer == "" {
		t.Fatalf("after a second start no helper serves: %+v, %v", r, err)
	}
	if r.Pid == first {
		t.Errorf("the helper, process %d, is the one of the start that was killed", first)
	}
}

// rounds is how often a moment is chosen that no name is given to.
func rounds(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}

// running makes a jail with a helper whose program runs.
func running(t *testing.T, opts []string, id string) {
	t.Helper()
	for _, v := range verbs(id)[:2] {
		if code, text := agentjail(t, nil, append(opts, v...)...); code != 0 {
			t.Fatalf("%v: status %d\n%s", v, code, text)
		}
	}
	if helperOf(id) == 0 {
		t.Fatal("the jail has no helper: this test looks at nothing")
	}
}

// helperOf is the process that is on record as a jail's helper, 0 for none.
func helperOf(id string) int {
	r, err := helper.Load(stateOf(id))
	if err != nil || r == nil {
		return 0
	}
	return r.Pid
}

// stateOf is a jail's directory of state.
func stateOf(id string) string { return state.Store{Root: state.DefaultRoot}.Dir(state.Key(root, id)) }

// killHelper kills a jail's helper, and returns when it has ended.
func killHelper(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	env.Check(t, err)
	defer unix.Close(fd)
	if args := env.Arguments(pid); len(args) == 0 || !strings.HasPrefix(args[0], "agentjail-egress") {
		t.Fatalf("process %d is %q", pid, args)
	}
	killByFD(t, fd)
}

// killByFD kills a helper, and returns when it has ended.
func killByFD(t *testing.T, fd int) {
	t.Helper()
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		t.Fatal(err)
	}
	if err := pidfd.Wait(fd, env.Patience); err != nil {
		t.Fatal("the helper: ", err)
	}
}

// TestDeleteKilledWithHelper kills delete of a running jail with a helper.
func TestDeleteKilledWithHelper(t *testing.T) {
	opts := named(t)
	for _, point := range []string{"delete.delegated", "delete.released"} {
		id := fmt.Sprintf("crash%d-%s", os.Getpid(), strings.ReplaceAll(point, ".", "-"))
		running(t, opts, id)
		if code, text := agentjail(t, []string{"AGENTJAIL_TEST_CRASH=" + point}, append(opts, "delete", "--force", id)...); code != -1 {
			t.Fatalf("delete was not killed at %s: status %d\n%s", point, code, text)
		}
		cleanUp(t, id)
	}
	for i := range rounds(15) {
		id := fmt.Sprintf("crash%d-delete%d", os.Getpid(), i)
		running(t, opts, id)
		cmd := command(nil, append(opts, "delete", "--force", id)...)
		env.Check(t, cmd.Start())
		env.AnyMoment(60 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if i%2 == 0 {
			// An engine that is gone as well: gc alone cleans up what has ended.
			if code, text := agentjail(t, nil, "gc"); code != 0 {
				t.Errorf("gc: status %d\n%s", code, text)
			}
		}
		cleanUp(t, id)
		if t.Failed() {
			t.Fatalf("after kill %d", i)
		}
	}
}

// TestHelperKilled kills the helper itself: the jail goes on without a network, and nothing is left of either.
func TestHelperKilled(t *testing.T) {
	opts := named(t)
	t.Run("of a running jail", func(t *testing.T) {
		id := fmt.Sprintf("crash%d-alone", os.Getpid())
		defer cleanUp(t, id)
		running(t, opts, id)
		killHelper(t, helperOf(id))
		for _, v := range [][]string{{"gc"}, {"exec", id, "true"}} {
			if code, text := agentjail(t, nil, append(opts, v...)...); code != 0 {
				t.Errorf("%v: status %d\n%s", v, code, text)
			}
		}
	})
	t.Run("before the program is started", func(t *testing.T) {
		id := fmt.Sprintf("crash%d-again", os.Getpid())
		defer cleanUp(t, id)
		if code, text := agentjail(t, nil, append(opts, verbs(id)[0]...)...); code != 0 {
			t.Fatalf("create: status %d\n%s", code, text)
		}
		if code, text := agentjail(t, []string{"AGENTJAIL_TEST_CRASH=start.sealed"}, append(opts, "start", id)...); code != -1 {
			t.Fatalf("start was not killed: status %d\n%s", code, text)
		}
		first := helperOf(id)
		killHelper(t, first)
		if code, text := agentjail(t, nil, append(opts, "start", id)...); code != 0 {
			t.Fatalf("start again: status %d\n%s", code, text)
		}
		if second := helperOf(id); second == 0 || second == first {
			t.Errorf("the first helper was %d, and after a second start it is %d", first, second)
		}
	})
	for what, killed := range map[string]func(*testing.T, []string, string) bool{"while create waits for it": killedAtOnce, "while start waits for it": killedAtStart} {
		t.Run(what, func(t *testing.T) {
			refused := 0
			for i := range rounds(10) {
				id := fmt.Sprintf("crash%d-waits%d", os.Getpid(), i)
				if killed(t, opts, id) {
					refused++
				}
				cleanUp(t, id)
				if t.Failed() {
					t.Fatalf("after kill %d", i)
				}
			}
			t.Logf("refused %d times", refused)
		})
	}
}

// killedAtOnce kills a helper as soon as it is on record. It reports whether create then refuses, and holds that nothing is left of it; else
// start starts another helper.
func killedAtOnce(t *testing.T, opts []string, id string) bool {
	t.Helper()
	cmd := command(nil, append(opts, verbs(id)[0]...)...)
	env.Check(t, cmd.Start())
	env.Poll(env.Patience, func() bool { return helperOf(id) != 0 })
	// It may not have become its program yet, and nothing else has its number: it is create's child, or reparented.
	pid := helperOf(id)
	if pid == 0 {
		_ = cmd.Wait()
		t.Fatal("create makes no helper")
	}
	switch fd, err := unix.PidfdOpen(pid, 0); {
	case err == nil:
		defer unix.Close(fd)
		killByFD(t, fd) // start must not meet one that has not ended yet
	case !errors.Is(err, unix.ESRCH):
		t.Fatal(err)
	}
	if cmd.Wait() != nil {
		waitGone(t, id)
		return true
	}
	if code, text := agentjail(t, nil, append(opts, "start", id)...); code != 0 {
		t.Errorf("start: status %d\n%s", code, text)
	}
	if now := helperOf(id); now == 0 || now == pid {
		t.Errorf("the helper that was killed is %d, and the one that serves %d", pid, now)
	}
	return false
}

// killedAtStart kills a helper while start gives it its work. It reports whether start then refuses: the jail then waits for another start, or
// is killed, having been started while the helper read its rules.
func killedAtStart(t *testing.T, opts []string, id string) bool {
	t.Helper()
	if code, text := agentjail(t, nil, append(opts, verbs(id)[0]...)...); code != 0 {
		t.Fatalf("create: status %d\n%s", code, text)
	}
	pid := helperOf(id)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("the helper, process %d: %v", pid, err)
	}
	defer unix.Close(fd)
	cmd := command(nil, append(opts, "start", id)...)
	env.Check(t, cmd.Start())
	env.AnyMoment(15 * time.Millisecond)
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if cmd.Wait() == nil {
		return false // it served before, or another was started
	}
	out, err := command(nil, append(opts, "state", id)...).Output()
	switch {
	case err == nil && strings.Contains(string(out), `"stopped"`):
		return true
	case err != nil || !strings.Contains(string(out), `"created"`):
		t.Errorf("start refused, and the jail is: %v\n%s", err, out)
	}
	if code, text := agentjail(t, nil, append(opts, "start", id)...); code != 0 {
		t.Errorf("start again: status %d\n%s", code, text)
	}
	return true
}

// TestRestartKilled kills `network restart` of a running jail whose helper was killed: another restart starts one, and only one is left.
func TestRestartKilled(t *testing.T) {
	opts := named(t)
	id := fmt.Sprintf("crash%d-restart", os.Getpid())
	defer cleanUp(t, id)
	running(t, opts, id)
	for i := range rounds(10) {
		killHelper(t, helperOf(id))
		cmd := command(nil, append(opts, "network", "restart", id)...)
		env.Check(t, cmd.Start())
		env.AnyMoment(40 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		// The killed one's helper may serve, or be about to end for want of work.
		var said string
		if !env.Poll(env.Patience, func() bool {
			if code, text := agentjail(t, nil, append(opts, "network", "restart", id)...); code != 0 && !strings.Contains(text, "has not ended") {
				t.Fatalf("after kill %d: network restart: status %d\n%s", i, code, text)
			}
			var code int
			code, said = agentjail(t, nil, append(opts, "exec", id, "nslookup", "api.example.test")...)
			return code == 0
		}) {
			t.Fatalf("after kill %d: no helper serves:\n%s", i, said)
		}
		var helpers []string
		for _, l := range left(id) {
			if strings.HasPrefix(l, "process: ") && strings.Contains(l, " agentjail-egress") {
				helpers = append(helpers, l)
			}
		}
		if len(helpers) != 1 || !strings.HasPrefix(helpers[0], fmt.Sprintf("process: /proc/%d ", helperOf(id))) {
			t.Fatalf("after kill %d: helper %d is on record, and there are:\n%s", i, helperOf(id), strings.Join(helpers, "\n"))
		}
	}
}
