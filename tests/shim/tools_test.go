package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	taskAPI "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/ttrpc"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var ids atomic.Int64

// startJail starts a jail with `ctr run` and removes it at the test's end. args are options of ctr's; what follows "--" is the
// command.
func startJail(t *testing.T, c *engine.CT, args ...string) string {
	t.Helper()
	id := newID()
	if r := c.Ctr(runArgs(id, append([]string{"-d"}, args...)...)...); r.Code != 0 {
		t.Fatal(r)
	}
	t.Cleanup(func() { c.Remove(id) })
	return id
}

func newID() string { return "jail-" + strconv.FormatInt(ids.Add(1), 10) }

// runArgs makes the arguments of a `ctr run` with the shim.
func runArgs(id string, args ...string) []string {
	options, command := args, []string{"sleep", "1000"}
	if i := slices.Index(args, "--"); i >= 0 {
		options, command = args[:i], args[i+1:]
	}
	return slices.Concat([]string{"run", "--runtime", engine.ShimRuntime}, options, []string{engine.BusyboxImage, id}, command)
}

// execIn runs a command in a jail.
func execIn(c *engine.CT, id string, command ...string) engine.Result {
	return c.Ctr(slices.Concat([]string{"tasks", "exec", "--exec-id", newID(), id}, command)...)
}

// readIn is execIn for a command that changes nothing and prints something.
func readIn(c *engine.CT, id string, command ...string) engine.Result {
	return engine.Heard(engine.Silent, func() engine.Result { return execIn(c, id, command...) })
}

// status is a task's, as RUNNING, or "" when there is none.
func status(c *engine.CT, id string) string {
	_, status := c.Task(id)
	return status
}

// shimOf finds the process of the shim that serves a task: its directory is the task's.
func shimOf(t *testing.T, c *engine.CT, id string) int {
	t.Helper()
	pids := shims(c.Bundle(id))
	if len(pids) != 1 {
		t.Fatalf("%d shims have the directory of %s", len(pids), id)
	}
	return pids[0]
}

// shims lists the processes of shims that have a directory, or one below.
func shims(dir string) []int {
	return env.Processes(func(pid int) bool {
		at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		exe, xerr := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		return err == nil && xerr == nil && pathname.Within(at, dir) && strings.HasPrefix(filepath.Base(exe), "containerd-shim-")
	})
}

// socketOf is the path of the socket of a task's shim.
func socketOf(t *testing.T, c *engine.CT, id string) string {
	t.Helper()
	address := ""
	if text, err := os.ReadFile(filepath.Join(c.Bundle(id), "bootstrap.json")); err == nil {
		var b struct{ Address string }
		env.Check(t, json.Unmarshal(text, &b))
		address = b.Address
	} else if text, err := os.ReadFile(filepath.Join(c.Bundle(id), "address")); err == nil {
		address = string(text)
	}
	return strings.TrimPrefix(address, "unix://")
}

// dialShim connects to the shim of a task as its daemon does.
func dialShim(t *testing.T, c *engine.CT, id string) (context.Context, taskAPI.TTRPCTaskService) {
	t.Helper()
	conn, err := net.Dial("unix", socketOf(t, c, id))
	env.Check(t, err)
	client := ttrpc.NewClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	ctx = ttrpc.WithMetadata(ctx, ttrpc.MD{"containerd-namespace-ttrpc": {c.Namespace()}})
	t.Cleanup(func() { client.Close(); cancel() })
	return ctx, taskAPI.NewTTRPCTaskClient(client)
}

// record is agentjail's own of a task, or nil.
func record(t *testing.T, c *engine.CT, id string) *state.Jail {
	t.Helper()
	for _, j := range records(t, c) {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// records are agentjail's of all tasks of a daemon.
func records(t *testing.T, c *engine.CT) (out []*state.Jail) {
	t.Helper()
	store := state.Store{Root: state.DefaultRoot}
	keys := env.Get(t, store.Keys)
	for _, key := range keys {
		// What begins with a dot, or cannot be read, is being made or removed.
		if j, err := store.Load(key); err == nil && key[0] != '.' && pathname.Below(j.Bundle, c.Dir) {
			out = append(out, j)
		}
	}
	return out
}

// nothingLeft checks that nothing is left of any task: processes, mounts, control groups, agentjail's state, sockets.
func nothingLeft(t *testing.T, c *engine.CT) {
	t.Helper()
	var left string
	c.TB = t
	env.Eventually(c, "nothing of the tasks is left", func() bool { left = leftOf(t, c); return left == "" })
}

func leftOf(t *testing.T, c *engine.CT) string {
	var left []string
	tasks := filepath.Dir(c.Bundle("x"))
	if p := shims(tasks); len(p) > 0 {
		left = append(left, fmt.Sprint("shims ", p))
	}
	mounts, err := engine.MountsBelow(tasks)
	env.Check(t, err)
	left = append(left, mounts...)
	for _, j := range records(t, c) {
		left = append(left, "record of "+j.ID)
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + c.CgroupParent() + "/*/cgroup.procs")
	more, _ := filepath.Glob("/sys/fs/cgroup/" + c.CgroupParent() + "/*/cgroup.procs")
	left = append(left, slices.Concat(groups, more)...)
	bundles, _ := filepath.Glob(tasks + "/*")
	left = append(left, bundles...)
	return strings.Join(left, "\n")
}
