package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/tests/env"
)

// sweepWait bounds how long a sweep waits for killed processes to be gone.
const sweepWait = 60 * time.Second

// janitorEnv names the directory a re-executed copy of this program has to sweep.
const janitorEnv = "AGENTJAIL_TEST_JANITOR"

// IfJanitor turns the process into the janitor of an engine when it was started as one, and never returns then. Every
// program that starts an engine calls it first in main or TestMain.
//
// The janitor waits until its standard input ends, that is until the program that started it is gone, even by kill -9
// or by a panic in a test's goroutine, and removes what that program's engine left.
func IfJanitor() {
	janitorFirst = true
	dir := os.Getenv(janitorEnv)
	if dir == "" {
		return
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if _, err := os.Stat(dir); err == nil {
		if err := sweep(dir); err != nil {
			fmt.Fprintln(os.Stderr, "janitor:", err)
			os.Exit(1)
		}
	}
	os.Exit(0)
}

// janitorFirst reports that this program has called IfJanitor.
var janitorFirst bool

// startJanitor starts the janitor for dir and returns the pipe that keeps it waiting.
func startJanitor(dir string) (io.Closer, error) {
	if !janitorFirst {
		return nil, errors.New("the program does not begin with IfJanitor: its janitor would run the program again")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	null, err := devNull()
	if err != nil {
		return nil, err
	}
	defer null.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), janitorEnv+"="+dir)
	// Not the tests' stdout: `go test` waits until everyone has closed that.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, null, null
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the janitor: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return w, nil
}

// sweep kills every process that belongs to the engine in dir, takes its mounts and cgroups down, and removes dir.
// What belongs to it is found by name only: processes in the engine's cgroups, processes with a path below dir among
// their arguments, mounts below dir. It may be called twice.
func sweep(dir string) error {
	if filepath.Dir(dir) != baseDir() || !strings.HasPrefix(filepath.Base(dir), dirPrefix) {
		return fmt.Errorf("refusing to sweep %q: not an engine's directory", dir)
	}
	parent := cgroupParent(dir)
	deadline := time.Now().Add(sweepWait)
	for {
		pids := append(cgroupPids(parent), argumentPids(dir)...)
		if len(pids) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of the engine in %s do not die", pids, dir)
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
			awaitExit(pid, time.Second)
		}
	}
	var errs []error
	if err := unmountBelow(dir); err != nil {
		errs = append(errs, err)
	}
	if err := RemoveCgroups(parent); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		if err := os.RemoveAll(dir); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweepStale sweeps the directories of engines whose program is gone: their lock is free. It stands in for a janitor
// that was killed too.
func sweepStale() {
	old, _ := filepath.Glob(filepath.Join(baseDir(), dirPrefix+"*"))
	for _, dir := range old {
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue // just being made, or not ours
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			if err := sweep(dir); err != nil {
				fmt.Fprintf(os.Stderr, "engine: sweep what an earlier run left in %s: %v\n", dir, err)
			}
		}
		f.Close()
	}
}

// awaitExit waits until pid has ended, at most for d. It needs no polling: a pidfd becomes readable then (pidfd_open(2)).
func awaitExit(pid int, d time.Duration) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, int(d.Milliseconds()))
}

// argumentPids lists processes, other than this one and its ancestors, that name a path below dir in their arguments.
func argumentPids(dir string) []int {
	family := map[int]bool{}
	for pid := os.Getpid(); pid > 1; pid = env.Parent(pid) {
		family[pid] = true
	}
	return env.Processes(func(pid int) bool {
		return !family[pid] && strings.Contains(env.CommandLine(pid), dir+"/")
	})
}

// MountsBelow lists the mount points of this mount namespace at or below dir, deepest last.
func MountsBelow(dir string) ([]string, error) {
	mounts, err := mountinfo.Read(mountinfo.Own)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, m := range mounts {
		if pathname.Within(m.Point, dir) {
			found = append(found, m.Point)
		}
	}
	return found, nil
}

// unmountBelow detaches every mount below dir and reports what stays.
func unmountBelow(dir string) error {
	for range 8 { // mounts can lie on top of each other
		at, err := MountsBelow(dir)
		if err != nil {
			return err
		}
		if len(at) == 0 {
			return nil
		}
		for i := len(at) - 1; i >= 0; i-- {
			_ = unix.Unmount(at[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	}
	at, _ := MountsBelow(dir)
	return fmt.Errorf("mounts stay below %s: %v", dir, at)
}

// cgroupParent is the name of the cgroup that holds everything the engine in dir starts.
func cgroupParent(dir string) string { return filepath.Base(dir) }

// cgroupDirs lists the directories of the cgroup name and of those below it in every hierarchy, deepest first. Where another program made a
// plain directory in place of a controller that is not mounted, runtimes make groups that are none in it.
func cgroupDirs(name string) []string {
	tops, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
	if _, err := os.Stat("/sys/fs/cgroup/" + name); err == nil {
		tops = append(tops, "/sys/fs/cgroup/"+name)
	}
	var dirs []string
	for _, top := range tops {
		var st unix.Statfs_t
		if unix.Statfs(top, &st) != nil || st.Type != unix.CGROUP_SUPER_MAGIC && st.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		_ = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, p)
			}
			return nil
		})
	}
	sort.Sort(sort.Reverse(sort.StringSlice(dirs)))
	return dirs
}

// cgroupPids lists the processes in the cgroup name and below.
func cgroupPids(name string) []int {
	seen := map[int]bool{}
	var pids []int
	for _, dir := range cgroupDirs(name) {
		// A paused container would not die: thaw it (v1 freezer, then v2).
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0)
		_ = os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("0"), 0)
		procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for f := range strings.FieldsSeq(string(procs)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 && !seen[pid] {
				seen[pid] = true
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// RemoveCgroups removes the control group of a name in every hierarchy and those below it.
func RemoveCgroups(name string) error {
	var last error
	// EBUSY right after the last process died: the kernel lets go a moment later and offers no event on v1.
	env.Poll(sweepWait, func() bool {
		last = nil
		for _, dir := range cgroupDirs(name) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				last = fmt.Errorf("remove cgroup %s: %w", name, err)
			}
		}
		return last == nil
	})
	return last
}
