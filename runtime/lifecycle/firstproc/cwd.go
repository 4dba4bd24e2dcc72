package firstproc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/state"
)

// CheckExecCwd refuses a working directory that leads through one of /proc's magic links: such a
// link to a file that the delegate left open leads out of the jail (CVE-2024-21626). The jail's own
// tree is walked from its root, and /proc's links are not followed. The delegate then opens the
// directory that was checked, unless the jail changes it in between, which delegates since runc
// 1.1.12 and crun 1.14.3 check themselves.
func CheckExecCwd(j *state.Brief, cwd string) error {
	root, err := os.OpenFile(fmt.Sprintf("/proc/%d/root", j.InitPid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // not running: the delegate reports it in its own words
	}
	defer root.Close()
	fd, err := openat.Open(int(root.Fd()), cwd, openat.InRoot, unix.O_PATH)
	switch {
	case err == nil:
		unix.Close(fd)
		return nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return refusal.New(refusal.Cwd, "process.cwd %q leads out of the jail (CVE-2024-21626)", cwd)
	}
	// The delegate reports a directory that is missing or may not be entered. A link to /proc/self
	// is missing from this view too: refuse those.
	if through, lerr := throughProc(int(root.Fd()), cwd); lerr == nil && through {
		return refusal.New(refusal.Cwd, "process.cwd %q leads through /proc (CVE-2024-21626)", cwd)
	}
	return nil
}

// checkCwd refuses a first process whose working directory is on a mount outside its mount
// namespace: it got there through a file that the delegate left open (CVE-2024-21626). The process
// waits for `start`, and its directory is already set.
func checkCwd(pid int, mounts []mountinfo.Mount) error {
	var stx unix.Statx_t
	cwd := fmt.Sprintf("/proc/%d/cwd", pid)
	if err := unix.Statx(unix.AT_FDCWD, cwd, 0, unix.STATX_MNT_ID, &stx); err != nil {
		return fmt.Errorf("the jail's working directory: %w", err)
	}
	id := strconv.FormatUint(stx.Mnt_id, 10)
	if slices.ContainsFunc(mounts, func(m mountinfo.Mount) bool { return m.ID == id }) {
		return nil
	}
	return refusal.New(refusal.Cwd, "the working directory leads out of the jail (CVE-2024-21626)")
}
