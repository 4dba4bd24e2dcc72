package load

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestContainerd: jails by the shim, over the newest containerd.
func TestContainerd(t *testing.T) {
	loadThrough(t, newContainerdDoor(t))
}

// TestLeftSnapshot: what containerd leaves of a snapshot when it is killed is known for what it is.
func TestLeftSnapshot(t *testing.T) {
	d := newContainerdDoor(t)
	id, err := d.start(t.Context())
	env.Check(t, err)
	defer func() {
		if err := d.remove(context.Background(), id); err != nil {
			t.Error(err)
		}
	}()
	all := filepath.Join(d.Dir, "containerd/io.containerd.snapshotter.v1.overlayfs/snapshots")
	entries, err := os.ReadDir(all)
	env.Check(t, err)
	last := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			last = max(last, n)
		}
	}
	env.Check(t, os.MkdirAll(filepath.Join(all, strconv.Itoa(last+1), "fs"), 0o700))
	if _, err := d.start(t.Context()); err == nil || !d.outlives(err) {
		t.Errorf("starting a jail where a snapshot's directory was left: %v", err)
	}
}

func newContainerdDoor(t *testing.T) *containerdDoor {
	t.Helper()
	dir := env.Get(t, engine.Shim)
	binary, err := engine.Tool("containerd")
	env.Check(t, err)
	c := engine.ContainerdFor(t, engine.ContainerdOptions{Shims: []string{dir}, Binary: binary})
	c.For(t)
	runtime := "io.containerd.agentjail.v2"
	if !engine.UnderTestIsAgentjail() {
		runtime = "io.containerd.runc.v2"
	}
	return &containerdDoor{Containerd: c, runtime: runtime}
}

// containerdDoor is ctr run --runtime=NAME.
type containerdDoor struct {
	*engine.Containerd
	runtime string
	n       atomic.Int64
}

func (d *containerdDoor) call(ctx context.Context, args ...string) (string, error) {
	return answerOf(d.Ctr(ctx, args...), args)
}

// answerOf is what a command of ctr printed.
func answerOf(r engine.Result, args []string) (string, error) {
	if r.Code != 0 {
		return "", fmt.Errorf("ctr %s: exit code %d: %s", strings.Join(args, " "), r.Code, strings.TrimSpace(r.Stderr))
	}
	return strings.TrimSpace(r.Stdout), nil
}

// id makes a name that is not used twice.
func (d *containerdDoor) id(kind string) string {
	return fmt.Sprintf("%s-%s-%d", d.Namespace(), kind, d.n.Add(1))
}

func (d *containerdDoor) start(ctx context.Context) (string, error) {
	id := d.id("jail")
	_, err := d.call(ctx, "run", "--detach", "--null-io", "--runtime="+d.runtime, engine.BusyboxImage, id, "sleep", "3600")
	return id, err
}

func (d *containerdDoor) exec(ctx context.Context, id string, args ...string) (string, error) {
	return answerOf(engine.Heard(engine.Silent, func() engine.Result {
		return d.Ctr(ctx, append([]string{"tasks", "exec", "--exec-id", d.id("exec"), id}, args...)...)
	}), args)
}

// remove: a task that is being removed already, or was, is fine; the container has to go.
func (d *containerdDoor) remove(ctx context.Context, id string) error {
	_, err := d.call(ctx, "tasks", "rm", "--force", id)
	if err != nil && !strings.Contains(err.Error(), "not found") {
		return err
	}
	_, err = d.call(ctx, "containers", "rm", id)
	if err != nil && strings.Contains(err.Error(), "not found") {
		return nil
	}
	return err
}

func (d *containerdDoor) pid(ctx context.Context, id string) (int, error) {
	out, err := d.call(ctx, "tasks", "ls")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(out, "\n") {
		if f := strings.Fields(line); len(f) > 2 && f[0] == id && f[2] == "RUNNING" {
			return strconv.Atoi(f[1])
		}
	}
	return 0, nil
}

func (d *containerdDoor) daemons() []string { return []string{"containerd"} }

func (d *containerdDoor) crash(string) error {
	if err := d.Kill(); err != nil {
		return err
	}
	return d.Start()
}

// outlives: a snapshot's directory gets its name before the snapshot is written down (containerd's overlay snapshotter,
// createSnapshot). Killed between the two, containerd gives the next snapshot the same number and finds the directory there,
// until its garbage collection takes it away. The runtime has not been called then.
func (d *containerdDoor) outlives(err error) bool {
	text := err.Error()
	return strings.Contains(text, "failed to rename: rename ") && strings.Contains(text, "/snapshots/new-") && strings.HasSuffix(text, "file exists")
}

// shimWait bounds the end of a shim without processes.
const shimWait = goneWait / 9

func (d *containerdDoor) gone(ids []string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), goneWait)
	defer cancel()
	// What it knows and the test does not: it was killed after it had made it, before it had reported it.
	for _, what := range []string{"tasks", "containers"} {
		out, err := d.call(ctx, what, "ls", "-q")
		if err != nil {
			return []string{err.Error()}
		}
		for id := range strings.FieldsSeq(out) {
			ids = append(ids, id)
			if err := d.remove(ctx, id); err != nil {
				fmt.Fprintf(os.Stderr, "load: %v\n", err)
			}
		}
	}
	// Shims end a moment after their last task. One that has processes now is lost, and so is one that stays.
	env.Poll(shimWait, func() bool {
		return !slices.ContainsFunc(shims(d.Dir), func(pid int) bool { return len(env.Children(pid)) == 0 })
	})
	lostShims(d.Dir)
	return leftovers(ctx, ids, d.CgroupParent(), func(string) bool { return false }, d.Dir)
}
