package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// memory is what a process has in memory, in KiB (proc_pid_smaps(5)): all of it, what is its share, and what no other
// has.
type memory struct{ rss, pss, anon int }

func memoryOf(t *testing.T, pid int) memory {
	t.Helper()
	all, err := env.Memory(pid)
	env.Check(t, err)
	return memory{rss: all["Rss"], pss: all["Pss"], anon: all["Anonymous"]}
}

// A shim takes no more memory than the one of containerd's own runtime: in all at most two thirds of it, since it gives its
// program's pages back, and of its own, beyond what it can share, little more than that of the release whose packages it is
// made of. (The distribution's older daemon has a smaller one, by an older Go.) What both have of their own varies by a
// tenth between runs.
func TestShimTakesLessMemory(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		var stock memory
		for _, runtime := range []string{"io.containerd.runc.v2", engine.ShimRuntime} {
			id := newID()
			c.Must("run", "-d", "--runtime", runtime, engine.BusyboxImage, id, "sleep", "1000")
			c.Must("tasks", "exec", "--exec-id", "one", id, "true")
			pid := shimOf(t, c, id)
			m := memoryOf(t, pid)
			if runtime == engine.ShimRuntime {
				// It gives back what it took once it has had nothing to do for a while.
				env.Eventually(c, "less memory than "+fmt.Sprintf("%+v", stock), func() bool {
					m = memoryOf(t, pid)
					return 3*m.rss <= 2*stock.rss && (strings.HasPrefix(c.Version(), "1.") || 4*m.anon <= 5*stock.anon)
				})
			}
			stock = m
			t.Logf("containerd %s, %s: %+v KiB", c.Version(), runtime, m)
			c.Remove(id)
		}
		nothingLeft(t, c)
	})
}

// A shim holds on to nothing of what it has done: files, mount namespaces, threads, children.
func TestShimHoldsOnToNothing(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		id := startJail(t, c, "--annotation", group+"leaks")
		pid := shimOf(t, c, id)
		round := func() {
			t.Helper()
			if r := execIn(c, id, "true"); r.Code != 0 {
				t.Error(r)
			}
			if r := c.Ctr(runArgs(newID(), "--rm", "--annotation", group+"leaks", "--", "true")...); r.Code != 0 {
				t.Error(r)
			}
		}
		count := func(what string) int {
			names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/%s/*", pid, what))
			return len(names)
		}
		for range 2 {
			round()
		}
		files := count("fd")
		for range 5 {
			round()
		}
		env.Eventually(c, "no more files are open than before", func() bool { return count("fd") <= files })
		own, err := os.Readlink("/proc/self/ns/mnt")
		env.Check(t, err)
		env.Eventually(c, "no thread is left in a jail's mount namespace", func() bool {
			spaces, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/mnt", pid))
			return !slices.ContainsFunc(spaces, func(s string) bool { at, err := os.Readlink(s); return err == nil && at != own })
		})
		const threads = 24 // some wait in the kernel while others are started
		if n := count("task"); n > threads {
			t.Errorf("%d threads", n)
		}
		if children := env.Children(pid); len(children) != 1 {
			t.Errorf("the children %v, and one jail", children)
		}
		c.Remove(id)
		nothingLeft(t, c)
	})
}
