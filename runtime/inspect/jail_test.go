package inspect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/internal/testprograms"
	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// These tests look at real jails: the program is built, and runs a busybox
// bundle through the host's runc.

// buildDir is where build put them, if it was called.
var buildDir string

var build = sync.OnceValues(func() (string, error) {
	var err error
	if buildDir, err = os.MkdirTemp("", "agentjail-inspect"); err != nil {
		return "", err
	}
	return filepath.Join(buildDir, "agentjail"), testprograms.Put(buildDir, "agentjail", "agentjail-enter")
})

// The main thread stays the main goroutine's: a thread that a test leaves in
// another namespace ends with its goroutine, but the main thread never does, and
// what /proc/self states is of the main thread.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	code := m.Run()
	if buildDir != "" {
		os.RemoveAll(buildDir)
	}
	os.Exit(code)
}

// needJails skips where no jail can be run, and returns the program.
func needJails(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: runs jails")
	}
	if _, err := os.Stat("/bin/busybox"); err != nil {
		t.Skip("needs a static busybox: ", err)
	}
	if _, err := delegate.Resolve("auto"); err != nil {
		t.Skip(err)
	}
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// bundleOf writes a bundle that runs a busybox shell script.
func bundleOf(t *testing.T, script string, change func(*specs.Spec)) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "rootfs/bin")
	for _, d := range []string{bin, "proc", "sys", "dev", "tmp", "etc", "work"} {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, "rootfs", d)
		}
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "busybox"), data, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"sh", "sleep", "cat"} {
		if err := os.Symlink("busybox", filepath.Join(bin, a)); err != nil {
			t.Fatal(err)
		}
	}
	spec := &specs.Spec{
		Version: "1.0.2", Root: &specs.Root{Path: "rootfs"}, Hostname: "test",
		Process: &specs.Process{
			Args: []string{"/bin/sh", "-c", script}, Cwd: "/", Env: []string{"PATH=/bin"},
			Capabilities: &specs.LinuxCapabilities{Bounding: []string{"CAP_KILL"}, Effective: []string{"CAP_KILL"}, Permitted: []string{"CAP_KILL"}},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=65536k"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
			{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"}},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs"},
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{{Type: "pid"}, {Type: "network"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"}},
		},
	}
	if change != nil {
		change(spec)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The main thread is kept out of other namespaces: it is /proc/self.
func init() { runtime.LockOSThread() }

var store = state.Store{Root: state.DefaultRoot}

// jailNumber distinguishes the jails of one test program.
var jailNumber int

// runJail makes a jail and returns its record. Scripts state "ready" when they
// run, so that nothing has to be waited for by the clock.
func runJail(t *testing.T, verb, bundle string) *state.Jail {
	t.Helper()
	program := needJails(t)
	jailNumber++
	id := fmt.Sprintf("inspect-test-%d-%d", os.Getpid(), jailNumber)
	args := []string{verb, "--bundle", bundle, id}
	if verb == "run" {
		args = slices.Insert(args, 1, "--detach")
	}
	t.Cleanup(func() {
		if out, err := exec.Command(program, "delete", "--force", id).CombinedOutput(); err != nil {
			t.Errorf("deleting %s: %v\n%s", id, err, out)
		}
	})
	start(t, exec.Command(program, args...), verb == "run")
	found, err := store.WithID(id)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d jails, %v", len(found), err)
	}
	j, err := store.Load(found[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// start runs a program that leaves a container behind and, if ready, waits for
// that to report it.
func start(t *testing.T, cmd *exec.Cmd, ready bool) {
	t.Helper()
	// The container keeps both: os/exec must not wait for their end.
	said, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	errs, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = out, errs
	err = cmd.Run()
	out.Close()
	if err == nil && ready {
		var line string
		if line, err = bufio.NewReader(said).ReadString('\n'); err == nil && line != "ready\n" {
			err = fmt.Errorf("it states %q", line)
		}
	}
	if err != nil {
		text, _ := os.ReadFile(errs.Name())
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
}

func verdicts(r *Result) map[string]Finding {
	out := map[string]Finding{}
	for _, f := range r.Findings {
		out[f.Name] = f
	}
	return out
}

func TestRealJailHolds(t *testing.T) {
	needJails(t)
	work := t.TempDir()
	if err := os.Chown(work, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(work), 0o755); err != nil {
		t.Fatal(err)
	}
	j := runJail(t, "run", bundleOf(t, "sleep 100 & echo ready; sleep 100; :", func(s *specs.Spec) {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/work", Type: "bind", Source: work, Options: []string{"rbind", "rw"}})
	}))
	r, err := Jail(store, j)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text.String())
	for _, f := range r.Findings {
		if f.Verdict == Broken {
			t.Errorf("%s: %s (should be: %s)", f.Name, f.Seen, f.Want)
		}
	}
	if r.Processes < 2 {
		t.Errorf("%d processes, not the shell and its child", r.Processes)
	}
	if f := verdicts(r)["bind mounts"]; !strings.HasPrefix(f.Seen, "1 writable with owners mapped") {
		t.Errorf("bind mounts: %s", f.Seen)
	}
	if len(r.Denied) == 0 {
		t.Error("the denied privileges are not listed: the bundle had no system call filter")
	}
	if c := r.Calls; c == nil || c.Pass != 185 || c.Refused < 150 || !strings.Contains(text.String(), "185 of ") {
		t.Errorf("the system calls that pass are not counted: %+v", c)
	}
	if n := r.Namespaces["net"]; n.Jail == 0 || n.Host == 0 || n.Jail == n.Host {
		t.Errorf("network namespaces: %+v", n)
	}
}

// TestStricterPolicy gives the record another policy than the jail was made
// with: what the kernel reports no longer fits.
func TestStricterPolicy(t *testing.T) {
	j := runJail(t, "run", bundleOf(t, "echo ready; sleep 100", nil))
	l := &j.Policy.Limits
	l.Pids, l.Memory, l.CPUs, l.NoFile = 7, 1<<20, 0.5, 3
	j.Policy.Root.Size, j.Policy.Tmpfs.Inodes = 1<<20, 3
	j.Policy.AppArmor.Required = true
	j.IDs = j.Policy.Userns.Block((j.IDs.Block + 1) % j.Policy.Userns.Pool.Blocks())
	r, err := Jail(store, j)
	if err != nil {
		t.Fatal(err)
	}
	wantBroken(t, r, "processes", "memory", "processors", "rlimits", "root", "tmpfs", "user ids", "group ids")
}

func wantBroken(t *testing.T, r *Result, names ...string) {
	t.Helper()
	if r.Holds {
		t.Error("the jail as a whole holds")
	}
	got := verdicts(r)
	for _, n := range names {
		if got[n].Verdict != Broken {
			t.Errorf("%s is %q: %s", n, got[n].Verdict, got[n].Seen)
		}
	}
}

// TestPlainContainer presents a container of runc itself, without any protection of
// ours, as a jail.
func TestPlainContainer(t *testing.T) {
	needJails(t)
	runc, err := delegate.Resolve("runc")
	if err != nil {
		t.Skip(err)
	}
	id := fmt.Sprintf("inspect-plain-%d", os.Getpid())
	dir := bundleOf(t, "echo ready; sleep 100", func(s *specs.Spec) {
		s.Process.Capabilities.Bounding = append(s.Process.Capabilities.Bounding, "CAP_SYS_ADMIN")
		s.Process.Rlimits = nil
		s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
			return n.Type == specs.NetworkNamespace || n.Type == specs.IPCNamespace
		})
		s.Linux.RootfsPropagation = "slave"
		s.Linux.CgroupsPath = "/" + id
		all := int64(-1)
		s.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Type: "a", Major: &all, Minor: &all, Access: "rwm"}}}
		s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/mem", Type: "c", Major: 1, Minor: 1}}
		s.Mounts = slices.DeleteFunc(s.Mounts, func(m specs.Mount) bool { return m.Type == "cgroup" || m.Type == "sysfs" })
		s.Mounts = append(s.Mounts,
			specs.Mount{Destination: "/sys", Type: "bind", Source: "/sys", Options: []string{"bind", "rw"}},
			specs.Mount{Destination: "/dev/kmsg", Type: "bind", Source: "/dev/kmsg", Options: []string{"bind"}},
			specs.Mount{Destination: "/work", Type: "bind", Source: t.TempDir(), Options: []string{"rbind", "rw", "rshared"}},
		)
	})
	pidFile := filepath.Join(dir, "pid")
	t.Cleanup(func() { _ = exec.Command(runc.Path, "delete", "--force", id).Run() })
	start(t, exec.Command(runc.Path, "run", "--detach", "--pid-file", pidFile, "--bundle", dir, id), true)
	data, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	start, _, err := state.StartTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	pol := policy.Default()
	pol.AppArmor.Required = true
	r, err := Jail(store, &state.Jail{
		Brief:  state.Brief{ID: id, Key: "none-" + id, InitPid: pid, InitStart: start, Started: true, IDs: pol.Userns.Block(0)},
		Policy: pol,
		Limits: &specs.LinuxResources{BlockIO: &specs.LinuxBlockIO{ThrottleReadBpsDevice: []specs.LinuxThrottleDevice{throttled(8, 0)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text.String())
	want := []string{
		"namespaces", "namespace owner", "clocks", "network", "root", "tmpfs", "bind mounts", "procfs", "device nodes", "propagation",
		"processes", "memory", "swap", "processors", "disk I/O", "rlimits",
		"user ids", "group ids", "capabilities", "no_new_privs", "security module", "masked paths", "read-only paths", "seccomp",
	}
	h := hostfacts.Read().Cgroup
	if !h.V2 { // the kernel does not report what a device program lets through
		want = append(want, "device rules")
	}
	if h.V2 || !h.Swap {
		// Without swap the files may be missing, which no setting changes.
		want = slices.DeleteFunc(want, func(n string) bool { return n == "swap" })
	}
	wantBroken(t, r, want...)
}

// TestTampering takes protections of a running jail down from the host.
func TestTampering(t *testing.T) {
	j := runJail(t, "run", bundleOf(t, "sleep 100 & echo ready; sleep 100; :", nil))
	p, err := openProc(j.InitPid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	first, err := readProcess(p)
	if err != nil {
		t.Fatal(err)
	}
	var c cgroupState
	if err := c.look(first.cgroups); err != nil {
		t.Fatal(err)
	}
	mounts, err := mountinfo.Read(mountinfo.Own)
	if err != nil {
		t.Fatal(err)
	}
	controller := "pids"
	if c.v2 {
		controller = ""
	}
	group := groupDir(mounts, controller, c.paths[controller])
	if err := os.WriteFile(filepath.Join(group, "pids.max"), []byte("max"), 0); err != nil {
		t.Fatal(err)
	}
	members, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	// The first process stays: its groups are the jail's.
	pids := slices.DeleteFunc(strings.Fields(string(members)), func(p string) bool { return p == strconv.Itoa(j.InitPid) })
	if err := os.WriteFile(filepath.Join(groupDir(mounts, controller, "/"), "cgroup.procs"), []byte(pids[0]), 0); err != nil {
		t.Fatal(err)
	}
	ns, err := p.open("ns/net", unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := downLoopback(ns); err != nil {
		t.Fatal(err)
	}
	want := []string{"processes", "control groups", "network"}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", j.InitPid), []byte("-500"), 0); err == nil {
		want = append(want, "oom score")
	} else {
		t.Logf("the oom score is not tampered with: %v", err)
	}
	r, err := Jail(store, j)
	if err != nil {
		t.Fatal(err)
	}
	wantBroken(t, r, want...)
	for _, f := range r.Findings {
		if f.Verdict == Broken && !slices.Contains(want, f.Name) {
			t.Errorf("%s is broken as well: %s", f.Name, f.Seen)
		}
	}
}

// downLoopback takes lo down in a network namespace, from a thread that ends.
func downLoopback(ns *os.File) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			lo, err := unix.NewIfreq("lo")
			if err != nil {
				return err
			}
			return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
		}()
	}()
	return <-done
}

// TestHostileName gives a process of the jail a name that would clear the
// screen, and lets it break a protection.
func TestHostileName(t *testing.T) {
	const name = "e\x1b[2J"
	j := runJail(t, "run", bundleOf(t, "printf '#!/bin/sh\necho ready\nsleep 100; :\n' >'/tmp/"+name+"'; /bin/busybox chmod +x /tmp/e*; exec /tmp/e*", nil))
	j.Policy.Limits.NoFile = 1
	r, err := Jail(store, j)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), name) || !strings.Contains(b.String(), `e\x1b[2J`) {
		t.Errorf("the name is not there, or as it is:\n%q", b.String())
	}
}

func TestNotRunning(t *testing.T) {
	created := runJail(t, "create", bundleOf(t, "sleep 100", nil))
	if _, err := Jail(store, created); !errors.Is(err, errNotStarted) {
		t.Errorf("a jail that waits for start: %v", err)
	}
	ended := runJail(t, "run", bundleOf(t, "echo ready", nil))
	waitEnd(t, ended)
	if _, err := Jail(store, ended); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a jail that has ended: %v", err)
	}
}

// waitEnd waits for the jail's first process (pidfd_open(2)).
func waitEnd(t *testing.T, j *state.Jail) {
	t.Helper()
	fd, err := unix.PidfdOpen(j.InitPid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
}
