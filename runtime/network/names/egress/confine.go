package egress

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/callfilter"
	"agentjail.dev/runtime/kernel/landlock"
	"agentjail.dev/runtime/network/names/internal/helperproto"
)

// Bounds of the helper's process.
const (
	maxFiles  = 16384    // each connection has two sockets and up to two pipes
	maxMemory = 64 << 20 // Go's, in bytes
	maxFile   = 64 << 20 // bytes of a file that it writes: its log
	// The bound if there is no control group. The Go runtime takes address space 64 MiB at a time.
	maxData    = 256 << 20 // bytes of memory of its own that it may map
	maxThreads = 64
)

// confine drops all that the helper does not need any more: files, ids, capabilities, and most
// system calls. It holds for every thread. AllThreadsSyscall needs a program without cgo.
func confine(s helperproto.Setup) error {
	// If memory is short, the helper's death costs only the jail's network; that of a host's
	// service costs more.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)
	if err := limits(); err != nil {
		return err
	}
	if !s.Activated { // an activator has done that
		if err := leaveFiles(); err != nil {
			return err
		}
		if err := changeIDs(s); err != nil {
			return err
		}
	}
	if err := dropPrivileges(); err != nil {
		return err
	}
	if err := enterDomain(); err != nil {
		return fmt.Errorf("entering a Landlock domain: %w", err)
	}
	return callfilter.Load(helperproto.ServingFilter(os.Getpid()))
}

func limits() error {
	for resource, max := range map[int]uint64{
		unix.RLIMIT_NOFILE: maxFiles, unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: maxFile,
		unix.RLIMIT_MEMLOCK: 0, unix.RLIMIT_DATA: maxData,
	} {
		var have unix.Rlimit
		if err := unix.Prlimit(0, resource, nil, &have); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
		max = min(max, have.Max)
		if err := unix.Prlimit(0, resource, &unix.Rlimit{Cur: max, Max: max}, nil); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
	}
	return nil
}

// leaveFiles changes the root to a removed directory, in which no file can be made. A user's engine
// may call chroot(2), too: its helper has the capabilities of the user's own user namespace.
func leaveFiles() error {
	if err := unix.Fchdir(helperproto.RootFD); err != nil {
		return fmt.Errorf("the empty directory: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return unix.Close(helperproto.RootFD)
}

// changeIDs changes the ids to the helper's own, which no other process has.
func changeIDs(s helperproto.Setup) error {
	if s.UID == 0 {
		return nil
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := syscall.Setresgid(int(s.GID), int(s.GID), int(s.GID)); err != nil {
		return fmt.Errorf("setresgid: %w", err)
	}
	if err := syscall.Setresuid(int(s.UID), int(s.UID), int(s.UID)); err != nil {
		return fmt.Errorf("setresuid: %w", err)
	}
	return nil
}

// dropPrivileges drops every capability and all means to gain one.
func dropPrivileges() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)),
		0); errno != 0 {
		return fmt.Errorf("dropping capabilities: %w", errno)
	}
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("no_new_privs: %w", errno)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("not being dumpable: %w", err)
	}
	return nil
}

// enterDomain enters a domain that has no file and may not take TCP ports, as far as the kernel
// knows (landlock(7)). The system call filter covers signals: before Linux 6.15 a scope for signals
// would keep the Go runtime's threads from signalling each other.
func enterDomain() error {
	abi, err := landlock.ABI()
	if err != nil {
		return nil //nolint:nilerr // no Landlock: the empty root and the filter hold alone
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: 1<<13 - 1} // all of version 1
	if abi >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP
	}
	if abi >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	fd, err := landlock.Create(&attr)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return landlock.RestrictAll(fd)
}

// closeOthers closes what an engine left open across the program's start: Go's own descriptors, and
// those of the work, are known.
func closeOthers() error {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= helperproto.LastFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}
