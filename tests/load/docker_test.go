package load

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var docker *engine.Engine

func TestMain(m *testing.M) {
	os.Exit(engine.MainWith(m, engine.Options{LiveRestore: true}, func(e *engine.Engine) error {
		docker = e
		return e.ImportBusybox()
	}))
}

// TestDocker: jails by docker run.
func TestDocker(t *testing.T) {
	loadThrough(t, dockerDoor{docker, engine.Name})
}

// dockerDoor is docker run --runtime=NAME.
type dockerDoor struct {
	*engine.Engine
	runtime string
}

func (d dockerDoor) call(ctx context.Context, args ...string) (string, error) {
	r := d.Docker(ctx, args...)
	if r.Code != 0 {
		return strings.TrimSpace(r.Stdout), fmt.Errorf("docker %s: exit code %d: %s", strings.Join(args, " "), r.Code, strings.TrimSpace(r.Stderr))
	}
	return strings.TrimSpace(r.Stdout), nil
}

func (d dockerDoor) start(ctx context.Context) (string, error) {
	return d.call(ctx, "run", "-d", "--network=none", "--runtime="+d.runtime, engine.Busybox, "sleep", "3600")
}

func (d dockerDoor) exec(ctx context.Context, id string, args ...string) (string, error) {
	return d.call(ctx, append([]string{"exec", id}, args...)...)
}

func (d dockerDoor) remove(ctx context.Context, id string) error {
	_, err := d.call(ctx, "rm", "-f", id)
	if err != nil && (strings.Contains(err.Error(), "No such container") || strings.Contains(err.Error(), "already in progress")) {
		return nil
	}
	return err
}

func (d dockerDoor) pid(ctx context.Context, id string) (int, error) {
	out, err := d.call(ctx, "inspect", "-f", "{{.State.Pid}}", id)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

func (d dockerDoor) daemons() []string { return []string{"dockerd", "containerd"} }

func (d dockerDoor) crash(name string) error {
	if name == "containerd" {
		if err := d.KillContainerd(); err != nil {
			return err
		}
		if err := d.StartContainerd(); err != nil {
			return err
		}
		// dockerd takes up to some seconds to call it again, and refuses until then.
		ctx, cancel := context.WithTimeout(context.Background(), goneWait)
		defer cancel()
		var err error
		env.Poll(goneWait, func() bool {
			_, err = d.call(ctx, "run", "--rm", "--network=none", "--runtime=runc", engine.Busybox, "true")
			return err == nil || ctx.Err() != nil
		})
		return err
	}
	if err := d.KillDockerd(); err != nil {
		return err
	}
	return d.StartDockerd()
}

func (d dockerDoor) outlives(error) bool { return false }

// goneWait bounds how long engines and the kernel may take to let go.
const goneWait = 90 * time.Second

func (d dockerDoor) gone(ids []string) []string {
	// Whatever Docker itself has lost track of, as after a kill in the middle of a create, it knows again when it starts.
	if err := d.crash("dockerd"); err != nil {
		return []string{err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), goneWait)
	defer cancel()
	if all, err := d.call(ctx, "ps", "-aq", "--no-trunc"); err != nil {
		return []string{err.Error()}
	} else if all != "" {
		ids = append(ids, strings.Fields(all)...)
		_, _ = d.call(ctx, append([]string{"rm", "-f"}, strings.Fields(all)...)...)
	}
	d.forget(ctx)
	return leftovers(ctx, ids, d.CgroupParent(), dockersOwn, d.Dir)
}

// forget removes tasks that containerd still runs for Docker and Docker does not know of: it was killed between starting
// them and writing so down, as happens under any runtime.
func (d dockerDoor) forget(ctx context.Context) {
	ctr := func(args ...string) string {
		out, _ := exec.CommandContext(ctx, "ctr", append([]string{"-a", d.Dir + "/containerd.sock", "-n", "moby"}, args...)...).Output()
		return string(out)
	}
	for id := range strings.FieldsSeq(ctr("tasks", "list", "-q")) {
		fmt.Fprintf(os.Stderr, "load: Docker has lost %s\n", id)
		ctr("tasks", "rm", "-f", id)
	}
	for id := range strings.FieldsSeq(ctr("containers", "list", "-q")) {
		ctr("containers", "rm", id)
	}
	lostShims(d.Dir)
}

// lostShims ends the engine's shims that are left when every container is removed, with what runs under them, as an
// operator would: containerd was killed between starting them and writing so down. Under runc it leaves as many.
func lostShims(dir string) {
	for _, pid := range shims(dir) {
		children := env.Children(pid)
		fmt.Fprintf(os.Stderr, "load: containerd has lost a shim with the processes %v\n", children)
		for _, p := range append([]int{pid}, children...) {
			_ = unix.Kill(p, unix.SIGKILL)
		}
	}
}

// shims lists the shims of the engine in dir.
func shims(dir string) []int {
	return env.Processes(func(pid int) bool {
		args := env.Arguments(pid)
		return len(args) > 0 && strings.HasPrefix(filepath.Base(args[0]), "containerd-shim-") && strings.Contains(strings.Join(args, " "), dir+"/")
	})
}

// leftovers looks, until ctx is over, whether something of the containers is left: the runtime's state, mounts below dir
// and of jails, control groups, processes. The runtime may clean up first, as it does with every create.
func leftovers(ctx context.Context, ids []string, cgroup string, allowed func(mount string) bool, dir string) []string {
	under, err := engine.UnderTest()
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	env.Poll(goneWait, func() bool {
		if engine.UnderTestIsAgentjail() {
			if out, err := exec.Command(under, "gc").CombinedOutput(); err != nil {
				left = []string{fmt.Sprintf("agentjail gc: %v: %s", err, out)}
				return true
			}
		}
		left = states(ids)
		for _, below := range append([]string{dir}, left...) {
			at, err := engine.MountsBelow(below)
			if err != nil {
				left = []string{err.Error()}
				return true
			}
			for _, m := range at {
				if !allowed(m) {
					left = append(left, "mount "+m)
				}
			}
		}
		for _, pattern := range []string{"/sys/fs/cgroup/" + cgroup + "/*/", "/sys/fs/cgroup/*/" + cgroup + "/*/"} {
			groups, _ := filepath.Glob(pattern)
			for _, g := range groups {
				left = append(left, "cgroup "+g)
			}
		}
		left = append(left, processes(ids)...)
		return len(left) == 0 || ctx.Err() != nil
	})
	return left
}

// processes lists those that have a container's id among their arguments or in the name of their control group.
func processes(ids []string) []string {
	mine := map[string]bool{}
	for _, id := range ids {
		mine[id] = true
	}
	var out []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		if p == fmt.Sprintf("/proc/%d", unix.Getpid()) {
			continue
		}
		args, _ := os.ReadFile(p + "/cmdline")
		group, _ := os.ReadFile(p + "/cgroup")
		text := string(args) + "\x00" + string(group)
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == 0 || r == '/' || r == '\n' || r == ' ' }) {
			if mine[word] {
				out = append(out, fmt.Sprintf("process %s: %q", filepath.Base(p), strings.ReplaceAll(string(args), "\x00", " ")))
				break
			}
		}
	}
	return out
}
