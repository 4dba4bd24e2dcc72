package apparmor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEnforcement loads a profile and lets root with every capability try what it forbids, and what
// it must not forbid. It needs a kernel with AppArmor and apparmor_parser, and skips elsewhere.
// Every deed is also done unconfined: one that fails there too states nothing and is left out, with a
// line in the log.
func TestEnforcement(t *testing.T) {
	switch {
	case !Enabled():
		t.Skip(errDisabled)
	case os.Geteuid() != 0:
		t.Skip("needs root: loads a profile")
	}
	const name = "agentjail-test"
	if changed, err := Ensure(context.Background(), Params{Name: name}); err != nil {
		t.Fatal(err)
	} else if again, err := Ensure(context.Background(), Params{Name: name}); again || err != nil {
		t.Errorf("loaded %v, and then again: %v, %v", changed, again, err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile("/sys/kernel/security/apparmor/.remove", []byte(name), 0); err != nil {
			t.Errorf("remove profile: %v", err)
		}
		if ok, err := Loaded(name); ok || err != nil {
			t.Errorf("after removal: loaded %v, %v", ok, err)
		}
		os.Remove(host.notePath(name))
	})
	if ok, err := Loaded(name); !ok || err != nil {
		t.Fatalf("loaded: %v, %v", ok, err)
	}

	free := runDeeds(t, "")
	jailed := runDeeds(t, name)
	if !strings.HasPrefix(jailed["label"], name+" (enforce)") || strings.HasPrefix(free["label"], name) {
		t.Fatalf("labels %q and %q", jailed["label"], free["label"])
	}
	tried := 0
	for _, d := range deeds {
		if free[d.name] != "" {
			t.Logf("%s: cannot be done here even unconfined: %s", d.name, free[d.name])
			continue
		}
		if d.feature != "" && !hasFeature(d.feature, d.abi) {
			t.Logf("%s: this kernel and parser do not mediate %s", d.name, d.feature)
			continue
		}
		tried++
		if refused := jailed[d.name] != ""; refused == d.allowed {
			t.Errorf("%s: allowed %v, got %q", d.name, d.allowed, jailed[d.name])
		}
	}
	if tried < len(deeds)/2 {
		t.Errorf("only %d of %d deeds could be tried", tried, len(deeds))
	}
}

// hasFeature looks for a file in the kernel's own list of what it mediates.
func hasFeature(path, abi string) bool {
	if slices.Index(abis, host.abi()) < slices.Index(abis, abi) {
		return false
	}
	feature, word, _ := strings.Cut(path, ":")
	b, err := os.ReadFile(filepath.Join("/sys/kernel/security/apparmor/features", feature))
	return err == nil && strings.Contains(string(b), word)
}

// deed is one thing that a program may try.
type deed struct {
	name    string
	allowed bool
	do      func(dir string, victim int) error // victim: an unconfined process of the test
	feature string                             // "file:word" below features, if not every kernel mediates it
	abi     string
}

func openFor(flags int, candidates ...string) func(string, int) error {
	return func(string, int) error {
		err := error(unix.ENOENT)
		for _, path := range candidates {
			var fd int
			if fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0); err == nil {
				return unix.Close(fd)
			}
			if !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
		return err
	}
}

func socketOf(family, kind, protocol int) func(string, int) error {
	return func(string, int) error {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
}

var deeds = []deed{
	{name: "mount", do: func(dir string, _ int) error { return unix.Mount("tmpfs", dir+"/mnt", "tmpfs", 0, "") }, feature: "mount/mask:mount"},
	{name: "bind mount", do: func(dir string, _ int) error { return unix.Mount(dir, dir+"/mnt", "", unix.MS_BIND, "") }, feature: "mount/mask:mount"},
	{name: "change propagation", do: func(string, int) error { return unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "") }, feature: "mount/mask:mount"},
	{name: "unmount", do: func(dir string, _ int) error { return unix.Unmount(dir+"/mounted", unix.MNT_DETACH) }, feature: "mount/mask:umount"},
	{name: "give a file away", do: func(dir string, _ int) error { return os.Chown(dir+"/file", 1234, 1234) }},
	{name: "make a device", do: func(dir string, _ int) error { return unix.Mknod(dir+"/dev", unix.S_IFCHR|0o600, 1<<8|3) }},
	{name: "change the root directory", do: func(dir string, _ int) error { return unix.Chroot("/") }},
	{name: "set the host name", do: func(string, int) error { return unix.Sethostname([]byte("deed")) }},
	{name: "raw IPv4 socket", do: socketOf(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
	{name: "raw IPv6 socket", do: socketOf(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)},
	{name: "packet socket", do: socketOf(unix.AF_PACKET, unix.SOCK_DGRAM, 0)},
	{name: "kernel tunable", do: openFor(unix.O_WRONLY, "/proc/sys/kernel/core_pattern")},
	{name: "sysrq", do: openFor(unix.O_WRONLY, "/proc/sysrq-trigger")},
	{name: "sysfs", do: openFor(unix.O_WRONLY, "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/rcu_expedited", "/sys/kernel/uevent_helper", "/sys/kernel/profiling")},
	{name: "kernel memory", do: openFor(unix.O_RDONLY, "/proc/kcore")},
	{name: "the host's uptime", do: openFor(unix.O_RDONLY, "/proc/self/timens_offsets")},
	{name: "keys of the host", do: openFor(unix.O_RDONLY, "/proc/keys", "/proc/key-users")},
	{name: "firmware", do: openFor(unix.O_RDONLY|unix.O_DIRECTORY, "/sys/firmware/efi", "/sys/firmware/acpi/tables", "/sys/firmware/acpi", "/sys/firmware/dmi", "/sys/firmware/memmap")},
	{name: "security module's files", do: openFor(unix.O_RDONLY, "/sys/kernel/security/apparmor/profiles")},
	{name: "map ids", do: openFor(unix.O_WRONLY, "/proc/self/uid_map")},
	{name: "leave the profile", do: func(string, int) error {
		return os.WriteFile("/proc/thread-self/attr/current", []byte("changeprofile unconfined"), 0)
	}},
	{name: "leave the profile at exec", do: func(string, int) error {
		return os.WriteFile("/proc/thread-self/attr/exec", []byte("exec unconfined"), 0)
	}},
	{name: "signal to the host", do: func(_ string, victim int) error { return unix.Kill(victim, unix.SIGCONT) }, feature: "signal/mask:cont"},
	{name: "trace the host", do: func(_ string, victim int) error {
		return unix.PtraceSeize(victim) // let go when this process ends
	}, feature: "ptrace/mask:trace"},
	{name: "environment of the host's programs", do: func(_ string, victim int) error {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", victim))
		return err
	}, feature: "ptrace/mask:read"},
	{name: "user namespace", do: func(string, int) error { return spawn(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}) }, feature: "namespaces/mask:userns_create", abi: "4.0"},

	{name: "write a file", allowed: true, do: func(dir string, _ int) error { return os.WriteFile(dir+"/new", []byte("x"), 0o600) }},
	{name: "rename and remove", allowed: true, do: func(dir string, _ int) error {
		return errors.Join(os.WriteFile(dir+"/a", nil, 0o600), os.Rename(dir+"/a", dir+"/b"), os.Remove(dir+"/b"))
	}},
	{name: "links", allowed: true, do: func(dir string, _ int) error {
		return errors.Join(os.Symlink("file", dir+"/symlink"), os.Link(dir+"/file", dir+"/link"))
	}},
	{name: "run a program", allowed: true, do: func(string, int) error { return spawn(nil) }},
	{name: "own name", allowed: true, do: func(string, int) error { return os.WriteFile("/proc/self/comm", []byte("deed"), 0) }},
	{name: "memory information", allowed: true, do: openFor(unix.O_RDONLY, "/proc/meminfo")},
	{name: "processors", allowed: true, do: openFor(unix.O_RDONLY, "/sys/devices/system/cpu/online")},
	{name: "TCP on lo", allowed: true, do: func(string, int) error { return echo("tcp", "127.0.0.1:0") }},
	{name: "TCP on lo, IPv6", allowed: true, do: func(string, int) error { return echo("tcp", "[::1]:0") }},
	{name: "unix socket", allowed: true, do: func(dir string, _ int) error { return echo("unix", dir+"/socket") }},
	{name: "abstract unix socket", allowed: true, do: func(string, int) error { return echo("unix", "@agentjail-deed-"+strconv.Itoa(os.Getpid())) }},
	{name: "socket pair", allowed: true, do: func(string, int) error {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(p[0], []byte("x"))
		}
		return err
	}},
	{name: "UDP socket", allowed: true, do: socketOf(unix.AF_INET, unix.SOCK_DGRAM, 0)},
	{name: "list of interfaces", allowed: true, do: func(string, int) error { _, err := net.Interfaces(); return err }},
	{name: "signal and trace a child", allowed: true, do: func(string, int) error {
		child := exec.Command("/proc/self/exe", "-test.run=^$")
		child.Env = []string{deedEnv + "=wait"}
		in, err := child.StdinPipe()
		if err != nil {
			return err
		}
		if err := child.Start(); err != nil {
			return err
		}
		defer child.Wait()
		defer in.Close()
		_, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", child.Process.Pid))
		return errors.Join(err, unix.PtraceSeize(child.Process.Pid), unix.Kill(child.Process.Pid, unix.SIGKILL))
	}},
}

func spawn(attr *syscall.SysProcAttr) error {
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = []string{}
	cmd.SysProcAttr = attr
	return cmd.Run()
}

func echo(network, address string) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.Dial(network, l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

const deedEnv = "AGENTJAIL_TEST_DEEDS"

// runDeeds runs the test program again under a profile, or unconfined, and returns what became of
// each deed ("" is success), and the label under "label".
func runDeeds(t *testing.T, profile string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"mnt", "mounted"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	victim := exec.Command("/proc/self/exe", "-test.run=^$")
	victim.Env = []string{deedEnv + "=wait"}
	hold, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer victim.Wait()
	defer hold.Close()

	var out bytes.Buffer
	done := make(chan error)
	go func() {
		// Never unlocked: the thread has its own mounts, host name, network, and perhaps a profile
		// for its next exec.
		runtime.LockOSThread()
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWNET); err != nil {
				return err
			}
			if err := errors.Join(
				unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
				unix.Mount("tmpfs", filepath.Join(dir, "mounted"), "tmpfs", 0, ""),
				loUp()); err != nil {
				return err
			}
			if profile != "" {
				if err := os.WriteFile("/proc/thread-self/attr/exec", []byte("exec "+profile), 0); err != nil {
					return fmt.Errorf("change profile on exec: %w", err)
				}
			}
			cmd := exec.Command("/proc/self/exe", "-test.run=^$")
			cmd.Env = []string{deedEnv + "=" + dir + ":" + strconv.Itoa(victim.Process.Pid)}
			cmd.Stdout, cmd.Stderr = &out, &out
			return cmd.Run()
		}()
	}()
	if err := <-done; err != nil {
		t.Fatalf("profile %q: %v\n%s", profile, err, out.Bytes())
	}
	_, text, _ := strings.Cut(out.String(), "DEEDS ")
	text, _, _ = strings.Cut(text, "\n")
	var result map[string]string
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		t.Fatalf("profile %q: %v\n%s", profile, err, out.Bytes())
	}
	return result
}

func loUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// TestMain does what runDeeds starts the program anew for, or runs the tests.
func TestMain(m *testing.M) {
	switch arg := os.Getenv(deedEnv); arg {
	case "":
		os.Exit(m.Run())
	case "wait": // until the process that started it has ended
		_, _ = os.Stdin.Read(make([]byte, 1))
	default:
		dir, pid, _ := strings.Cut(arg, ":")
		victim, _ := strconv.Atoi(pid)
		label, _ := os.ReadFile("/proc/self/attr/current")
		result := map[string]string{"label": strings.TrimSpace(string(label))}
		for _, d := range deeds {
			result[d.name] = ""
			if err := d.do(dir, victim); err != nil {
				result[d.name] = err.Error()
			}
		}
		b, err := json.Marshal(result)
		if err != nil {
			panic(err)
		}
		fmt.Printf("DEEDS %s\n", b)
	}
}
