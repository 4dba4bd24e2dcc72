package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sandboxed does to itself what an agent's own sandbox does: a Landlock domain in which only one directory can be written, and
// a seccomp filter that refuses one call. Both have to hold, in a jail as without, where a jail's own filter lets it load one.
func sandboxed([]string) (any, error) {
	runtime.LockOSThread()
	dir, err := os.MkdirTemp("/tmp", "sandbox")
	if err != nil {
		return nil, err
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_REG}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return nil, fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	below := unix.LandlockPathBeneathAttr{Allowed_access: attr.Handled_access_fs, Parent_fd: int32(at)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&below)), 0, 0, 0); errno != 0 {
		return nil, fmt.Errorf("landlock_add_rule: %w", errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return nil, fmt.Errorf("landlock_restrict_self: %w", errno)
	}
	// Everything but mkdirat.
	prog := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_MKDIRAT},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x50000 | uint32(unix.EXDEV)}, // an errno that means nothing here
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	var filter error
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		filter = errno
	}
	write := func(path string) outcome {
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return outcomeOf(err)
	}
	return map[string]outcome{
		"a filter":         outcomeOf(filter),
		"in the directory": write(filepath.Join(dir, "x")),
		"elsewhere":        write("/tmp/x"),
		"a directory":      outcomeOf(unix.Mkdirat(unix.AT_FDCWD, filepath.Join(dir, "d"), 0o700)),
	}, nil
}

// executableMemory makes memory both writable and executable, as compilers that run what they made do.
func executableMemory([]string) (any, error) {
	out := map[string]outcome{}
	_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	out["mmap"] = outcomeOf(err)
	m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	out["mprotect"] = outcomeOf(unix.Mprotect(m, unix.PROT_READ|unix.PROT_EXEC))
	return out, nil
}
