package leak

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// cycles is how many containers come and go in TestCyclesLeakNothing: AGENTJAIL_LEAK_CYCLES, or 400, or 30 with -short.
func cycles(t testing.TB) int {
	if n, err := strconv.Atoi(os.Getenv("AGENTJAIL_LEAK_CYCLES")); err == nil {
		return n
	}
	if testing.Short() {
		return 30
	}
	return 400
}

// TestCyclesLeakNothing creates, starts, waits for and deletes many containers, two at a time.
func TestCyclesLeakNothing(t *testing.T) {
	n := cycles(t)
	caller{}.must(t, "--version")
	cycle(t, newID(0)) // what is made once and kept is made now
	before := take(t)
	objects := map[string]int{}
	for _, name := range []string{"net_namespace", "user_namespace", "pid_namespace", "mnt_cache", "mount"} {
		objects[name] = slab(name)
	}
	start := time.Now()
	ids := make(chan string)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for id := range ids {
				if !t.Failed() {
					cycle(t, id)
				}
			}
		})
	}
	for i := range n {
		ids <- newID(i + 1)
	}
	close(ids)
	wg.Wait()
	t.Logf("%d cycles, %v each", n, (time.Since(start) / time.Duration(n)).Round(time.Millisecond))
	unchanged(t, before)
	// Objects without a name anywhere, such as a namespace that an open file keeps, show in the kernel's own counts. Others
	// make and drop some too: only a growth that comes near one per cycle counts.
	for name, was := range objects {
		if was < 0 || n < 200 {
			continue
		}
		var more int
		if !env.Poll(env.Patience, func() bool { more = slab(name) - was; return more <= n/2 }) {
			t.Errorf("%s: %d kernel objects more after %d cycles", name, more, n)
		}
	}
	env.Check(t, engine.RemoveCgroups(filepath.Base(base)))
}

// cycle is the whole life of one container.
func cycle(t testing.TB, id string) {
	t.Helper()
	c := caller{}
	dir := bundle(t, spec(id, "/bin/sh", "-c", "touch /made && exit 7"))
	defer os.RemoveAll(dir)
	pid := c.create(t, id, dir)
	c.must(t, "start", id)
	if code := reap(t, pid); code != 7 {
		t.Errorf("%s: exit code %d", id, code)
	}
	c.must(t, "delete", id)
}

// TestParallelContainersLeakNothing has 50 containers at once.
func TestParallelContainersLeakNothing(t *testing.T) {
	before := take(t)
	const n = 50
	var wg sync.WaitGroup
	var mu sync.Mutex
	pids := map[string]int{}
	for i := range n {
		wg.Go(func() {
			id := fmt.Sprintf("%s-p%d", newID(0), i)
			c := caller{}
			dir := bundle(t, spec(id, "/bin/sleep", "3600"))
			r := c.call(t, "create", "--bundle", dir, "--pid-file", dir+"/pid", id)
			if r.Code != 0 {
				t.Error(r)
				return
			}
			pid := env.Number(t, string(env.Read(t, dir+"/pid")))
			if r := c.call(t, "start", id); r.Code != 0 {
				t.Error(r)
			}
			mu.Lock()
			pids[id] = pid
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(pids) != n {
		t.Errorf("%d of %d containers run", len(pids), n)
	}
	for id, pid := range pids {
		wg.Go(func() {
			c := caller{}
			if r := c.call(t, "kill", id, "KILL"); r.Code != 0 {
				t.Error(r)
			}
			reap(t, pid)
			if r := c.call(t, "delete", id); r.Code != 0 {
				t.Error(r)
			}
			if r := c.call(t, "delete", "--force", id); r.Code != 0 {
				t.Errorf("a second delete: %v", r)
			}
		})
	}
	wg.Wait()
	unchanged(t, before)
	env.Check(t, engine.RemoveCgroups(filepath.Base(base)))
}

// running waits for a process to be the program it is to become.
func running(t *testing.T, pid int, program string) {
	t.Helper()
	if promise.Sandbox() != "" {
		return // the program is behind the sandbox's process
	}
	env.Eventually(t, fmt.Sprintf("process %d is %s", pid, program), func() bool {
		args := env.Arguments(pid)
		return len(args) > 0 && args[0] == program
	})
}

// TestExecLeavesNothing: processes that join come and go without a trace.
func TestExecLeavesNothing(t *testing.T) {
	id := newID(0) + "-exec"
	c := caller{}
	dir := bundle(t, spec(id, "/bin/sleep", "3600"))
	empty := take(t)
	pid := c.create(t, id, dir)
	c.must(t, "start", id)
	running(t, pid, "/bin/sleep")
	before := take(t)
	for range 20 {
		if r := c.call(t, "exec", id, "/bin/sh", "-c", "exit 3"); r.Code != 3 {
			t.Fatal(r)
		}
	}
	if promise.Sandbox() == "" { // which keeps processes of its own for the next program
		unchanged(t, before)
	}
	c.must(t, "kill", id, "KILL")
	reap(t, pid)
	c.must(t, "delete", id)
	unchanged(t, empty)
	env.Check(t, engine.RemoveCgroups(filepath.Base(base)))
}
