// Package leak drives the runtime binary by itself, without an engine, and tests what it leaves on the host: nothing,
// after many cycles and after bad input. (What it leaves when it is killed: tests/crash.)
package leak

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var (
	// runtimePath is the runtime under test.
	runtimePath string
	// base is a directory of this run; its name marks everything that the tests make.
	base string
)

func TestMain(m *testing.M) {
	engine.SuiteNeedsRoot("it runs jails")
	engine.Exit(runTests(m))
}

func runTests(m *testing.M) (int, error) {
	var err error
	if runtimePath, err = engine.UnderTest(); err != nil {
		return 1, err
	}
	defer engine.RemoveBuilt()
	if base, err = os.MkdirTemp("/var/tmp", "agentjail-leak-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(base)
	if err := os.Chmod(base, 0o711); err != nil {
		return 1, err
	}
	// Containers' first processes come to this one when the runtime that made them ends, as they do to a shim.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1, err
	}
	if err := engine.UnpackBusybox(filepath.Join(base, "rootfs")); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// A object is a piece of config.json.
type object = map[string]any

// spec is a config.json as an engine writes it, without limits of its own. Its cgroup lies below the run's own.
func spec(id string, args ...string) object {
	return object{
		"ociVersion": "1.0.2",
		"process": object{
			"user": object{"uid": 0, "gid": 0}, "args": args, "cwd": "/",
			"env":             []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
			"capabilities":    object{"bounding": []string{"CAP_CHOWN", "CAP_KILL"}, "effective": []string{"CAP_CHOWN"}, "permitted": []string{"CAP_CHOWN"}},
			"noNewPrivileges": false,
		},
		"root":     object{"path": filepath.Join(base, "rootfs"), "readonly": false},
		"hostname": "leak",
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc", "options": []string{"nosuid", "noexec", "nodev"}},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
			{"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
			{"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": []string{"nosuid", "noexec", "nodev", "ro"}},
			{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": []string{"ro", "nosuid", "noexec", "nodev"}},
			{"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": []string{"nosuid", "noexec", "nodev"}},
			{"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
		},
		"linux": object{
			"cgroupsPath": "/" + filepath.Base(base) + "/" + id,
			"namespaces":  []object{{"type": "mount"}, {"type": "network"}, {"type": "uts"}, {"type": "pid"}, {"type": "ipc"}},
			"resources":   object{"devices": []object{{"allow": false, "access": "rwm"}}},
		},
	}
}

// bundle writes s as a bundle and returns its directory.
func bundle(t testing.TB, s object) string {
	t.Helper()
	text, err := json.Marshal(s)
	env.Check(t, err)
	return rawBundle(t, text)
}

func rawBundle(t testing.TB, text []byte) string {
	t.Helper()
	dir, err := os.MkdirTemp(base, "bundle-")
	env.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	env.Check(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
	return dir
}

// A result is what one call of the runtime gave.
type result struct {
	engine.Result
	signal syscall.Signal
	maxRSS int64 // bytes
}

// callWait bounds one call.
const callWait = 2 * time.Minute

// A caller calls the runtime.
type caller struct {
	// private gives the call a mount namespace of its own, for input that could hurt the host if it were accepted.
	private bool
	options []string // before the verb
}

// call runs the runtime with the run's own state directory and waits for it.
func (c caller) call(t testing.TB, args ...string) (r result) {
	t.Helper()
	var cmd *exec.Cmd
	r.Result = engine.Within(t, callWait, func(ctx context.Context) engine.Result {
		cmd = exec.CommandContext(ctx, runtimePath, slices.Concat([]string{"--root", filepath.Join(base, "state")}, c.options, args)...)
		if c.private {
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS} // Go makes every mount private there
		}
		return engine.Capture(base, cmd, nil)
	})
	if cmd.ProcessState == nil {
		t.Fatal(r)
	}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		r.signal = ws.Signal()
	}
	if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.maxRSS = ru.Maxrss << 10
	}
	return r
}

func (c caller) must(t testing.TB, args ...string) {
	t.Helper()
	c.call(t, args...).Must(t)
}

// create makes a container and returns its first process.
func (c caller) create(t testing.TB, id, dir string) int {
	t.Helper()
	pidFile := filepath.Join(dir, "pid")
	c.must(t, "create", "--bundle", dir, "--pid-file", pidFile, id)
	return env.Number(t, string(env.Read(t, pidFile)))
}

// reap waits for the end of a container's first process, as a shim does, and returns its exit code, -1 for a signal.
func reap(t testing.TB, pid int) int {
	t.Helper()
	// A pidfd becomes readable when the process ends (pidfd_open(2)): the wait below then cannot hang.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("pidfd of %d: %v", pid, err)
	}
	defer unix.Close(fd)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(callWait.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			t.Fatalf("process %d does not end: %v", pid, err)
		}
		break
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, 0, nil); err != nil {
		t.Fatalf("wait for %d: %v", pid, err)
	}
	return ws.ExitStatus()
}

// reapAll takes the exit status of all children that have ended: containers whose runtime died came to this process.
func reapAll() {
	procs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, p := range procs {
		text, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		if len(f) > 1 && f[0] == "Z" && f[1] == strconv.Itoa(os.Getpid()) {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// newID makes an id that belongs to this run.
func newID(n int) string { return fmt.Sprintf("%s-%d", filepath.Base(base), n) }
