package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringTries are attacks that tests make with rings of a jail taken away, down to none at all, where the process is host
// root with every capability. None does harm even then: they aim at what the test made for them (victim), stop at an
// open file, or have arguments that the kernel refuses once it has looked at the caller's rights. Each returns nil when it was let
// through to there.
var ringTries = map[string]func() error{
	// Kernel surface.
	"io_uring":                tries["io_uring_setup"],
	"bpf":                     makeMap,
	"perf_event_open":         tries["perf_event_open"],
	"userfaultfd":             tries["userfaultfd"],
	"AF_VSOCK socket":         tries["socket_vsock"],
	"AF_PACKET socket":        tries["socket_packet"],
	"raw IP socket":           tries["socket_raw4"],
	"nf_tables":               tries["socket_netfilter"],
	"keyring":                 tries["keyctl"],
	"user namespace":          tries["clone_user"],
	"network namespace":       func() error { return unix.Unshare(unix.CLONE_NEWNET) },
	"host file by its handle": shocker,
	"kernel log":              func() error { _, err := unix.Klogctl(3, make([]byte, 64)); return err },
	"reboot":                  reaches(tries["reboot"], unix.EINVAL), // wrong magic numbers
	"swapon":                  reaches(func() error { p := [1]byte{}; return sys(unix.SYS_SWAPON, ptr(&p), 0, 0, 0, 0, 0) }, unix.ENOENT),
	"process accounting":      reaches(tries["acct"], unix.ENOENT),
	"clock":                   setClockByNothing,
	"terminal injection":      injectIntoTerminal,
	"new mount":               tries["mount_tmpfs"],
	"/proc/sys writable":      remountSettings,
	"chroot":                  tries["chroot"],
	"cgroup release_agent":    func() error { return openReleaseAgent(os.Getenv("RING_HIERARCHY")) },
	"block device node":       func() error { defer os.Remove("/tmp/probe-block"); return tries["mknod_block"]() },
	"memory device node":      func() error { defer os.Remove("/tmp/probe-mem"); return tries["mknod_kmem"]() },
	"change to another uid":   tries["setuid_other"],

	// What the kernel shows of the machine; opened and closed.
	"kernel.core_pattern": opens("/proc/sys/kernel/core_pattern"),
	"vm.drop_caches":      opens("/proc/sys/vm/drop_caches"),

	// Other processes and files: the victim's.
	"signal to a process of the host":     onVictim(func(pid int) error { return unix.Kill(pid, 0) }),
	"ptrace of a process of the host":     onVictim(unix.PtraceSeize),
	"memory of a process of the host":     onVictim(readVictim),
	"shared memory of the host":           attachShared,
	"abstract socket of the host":         abstractHost,
	"host name":                           func() error { return unix.Sethostname([]byte("changed")) },
	"root's file in a mounted directory":  func() error { _, err := os.ReadFile("/work/private"); return err },
	"set-uid program left in a directory": leaveSetID,
	"1100 processes":                      manyProcesses,
}

// ringsAsUser are those for a process that is not container root.
var ringsAsUser = map[string]func() error{
	"set-uid program of the image": func() error {
		out, err := exec.Command("/usr/local/bin/setuid-probe", "identity").Output()
		if err != nil {
			return err
		}
		if !bytes.Contains(out, []byte(`"euid":0,`)) {
			return unix.EPERM
		}
		return nil
	},
}

// rings makes all of them, each in a process of its own: those for container root, or for others.
func rings(args []string) (any, error) {
	table := ringTries
	if os.Getuid() != 0 {
		table = ringsAsUser
	}
	if len(args) == 0 {
		for n := range table {
			args = append(args, n)
		}
	}
	return attempts(args)
}

// reaches takes errors that come after the kernel has let the caller through for success.
func reaches(try func() error, after ...error) func() error {
	return func() error {
		err := try()
		for _, a := range after {
			if errors.Is(err, a) {
				return nil
			}
		}
		return err
	}
}

// opens opens a file for writing and writes nothing. What is masked is the null device, or not there.
func opens(path string) func() error {
	return func() error {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFCHR {
			return unix.ENOENT
		}
		return nil
	}
}

// makeMap makes a BPF map of one element.
func makeMap() error {
	attr := [4]uint32{unix.BPF_MAP_TYPE_ARRAY, 4, 4, 1} // type, sizes of key and value, elements (bpf(2))
	return sys(unix.SYS_BPF, unix.BPF_MAP_CREATE, ptr(&attr), unsafe.Sizeof(attr), 0, 0, 0)
}

// setClockByNothing puts the clock forward by no time at all.
func setClockByNothing() error {
	t := unix.Timex{Modes: unix.ADJ_SETOFFSET | unix.ADJ_NANO}
	_, err := unix.Adjtimex(&t)
	return err
}

// remountSettings makes /proc/sys writable in this mount namespace, where it is read-only.
func remountSettings() error {
	if err := unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND, ""); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return opens("/proc/sys/kernel/core_pattern")() // EINVAL: not a mount of its own
}

func openReleaseAgent(name string) error {
	const at = "/tmp/hierarchy"
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("cgroup", at, "cgroup", 0, "none,name="+name); err != nil {
		return err
	}
	defer func() { _ = unix.Unmount(at, unix.MNT_DETACH) }()
	return opens(at + "/release_agent")()
}

// injectIntoTerminal types a character into a terminal of its own, as if the user had.
func injectIntoTerminal() error {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	if _, err := unix.Setsid(); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	s, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_ = unix.IoctlSetInt(s, unix.TIOCSCTTY, 0)
	c := byte('x')
	return sys(unix.SYS_IOCTL, uintptr(s), unix.TIOCSTI, ptr(&c), 0, 0, 0)
}

// shocker opens a file of the host by its handle, over a directory that is mounted from the same file system.
func shocker() error {
	handle := os.Getenv("RING_HANDLE")
	if handle == "" {
		return tries["open_by_handle_at"]() // requested in a jail that no handle was made for
	}
	raw, err := base64.StdEncoding.DecodeString(handle)
	if err != nil || len(raw) < 5 {
		return fmt.Errorf("RING_HANDLE %q is no handle (%v)", handle, err)
	}
	dir, err := unix.Open("/work", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	fd, err := unix.OpenByHandleAt(dir, unix.NewFileHandle(int32(raw[0]), raw[1:]), unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// leaveSetID makes a program in a mounted directory that runs as root for every user.
func leaveSetID() error {
	const path = "/work/open/set-uid"
	defer os.Remove(path)
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o755)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fchmod(fd, 0o4755); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_ISUID == 0 {
		return unix.EPERM
	}
	return nil
}

// victimWord is among the victim's arguments.
const victimWord = "victim-of-rings"

// onVictim finds the victim among the processes that can be seen.
func onVictim(f func(pid int) error) func() error {
	return func() error {
		found, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			return err
		}
		for _, p := range found {
			if strings.Contains(fileLines(p), victimWord) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
				return f(pid)
			}
		}
		return unix.ESRCH
	}
}

func readVictim(pid int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	return f.Close()
}

// shmKey names the victim's shared memory (shmget(2)).
const shmKey = 0x41474a4c

func attachShared() error {
	id, _, errno := unix.Syscall(unix.SYS_SHMGET, shmKey, 4096, 0)
	if errno != 0 {
		return errno
	}
	at, _, errno := unix.Syscall(unix.SYS_SHMAT, id, 0, unix.SHM_RDONLY)
	if errno != 0 {
		return errno
	}
	return sys(unix.SYS_SHMDT, at, 0, 0, 0, 0, 0)
}

// manyProcesses starts more than policy's limit.
func manyProcesses() error {
	answer, err := forks([]string{"1100"})
	if err != nil {
		return err
	}
	if e := answer.(map[string]any)["errno"]; e != "" {
		return unix.EAGAIN
	}
	return nil
}

// victim is a process of the host, in namespaces that the test made for it: it has shared memory and an abstract socket,
// states that it is ready, and waits until its standard input ends.
func victim(args []string) (any, error) {
	if len(args) != 2 || args[0] != victimWord {
		return nil, errors.New("usage: victim " + victimWord + " SOCKET")
	}
	if _, _, errno := unix.Syscall(unix.SYS_SHMGET, shmKey, 4096, unix.IPC_CREAT|0o666); errno != 0 {
		return nil, fmt.Errorf("shmget: %w", errno)
	}
	l, err := net.Listen("unix", args[1])
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	os.Stdout.WriteString("ready\n")
	var b [1]byte
	_, _ = os.Stdin.Read(b[:])
	return map[string]string{}, nil
}
