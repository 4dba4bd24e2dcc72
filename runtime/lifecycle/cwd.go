package lifecycle

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/state"
)

// checkExecCwd refuses a working directory that leads through one of /proc's magic links: such a
// link to a file that the delegate left open leads out of the jail (CVE-2024-21626). The jail's own
// tree is walked from its root, and /proc's links are not followed. The delegate then opens the
// directory that was checked, unless the jail changes it in between, which delegates since runc
// 1.1.12 and crun 1.14.3 check themselves.
func checkExecCwd(j *state.Brief, cwd string) error {
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
