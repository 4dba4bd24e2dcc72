package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/jailinit/host"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/lifecycle/firstproc"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// A delegate does little at start and at delete, and its own start takes several times as long as
// that. For most jails that work is done here. Unusual jails are left to the delegate.

// canSkipDelegate reports whether the delegate's result for a jail's spec is known in advance: a
// process that takes all others along when it ends, and nothing on the host but control groups.
func canSkipDelegate(s *specs.Spec) bool {
	if s.Linux.IntelRdt != nil {
		return false
	}
	// Docker uses Prestart, which is over before start.
	if h := s.Hooks; h != nil &&
		len(h.CreateRuntime)+len(h.CreateContainer)+len(h.StartContainer)+len(h.Poststart)+len(h.Poststop) > 0 {
		return false
	}
	return slices.ContainsFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
		return n.Type == specs.PIDNamespace && n.Path == ""
	})
}

// startInit starts a created container, by the delegate if that has to do so.
func (r *Runtime) startInit(j *state.Brief) error {
	if j.Direct {
		done := r.step("start init")
		known, err := startWithoutDelegate(j, r.Store.Root)
		if err == nil && known && !j.Stays {
			// A signal that arrives before the program can take it is lost: the kernel withholds
			// from a first process all signals without a handler (kill(2), Notes). The caller of
			// start may send one at once.
			firstproc.AwaitProgram(j.InitPid, r.Store.Root)
		}
		if err != nil || known {
			done()
			return err
		}
	}
	d, err := r.delegateFor(j)
	if err != nil {
		return err
	}
	defer r.step("delegate start")()
	return exitError(r.run(d, j, append(r.Globals.Args(), "start", j.ID)))
}

// wasStarted reports that a process does not wait to be started. A started one runs the init
// step, or has both its filters. The delegate loads one at most on a waiting process, beside those
// of this process, which it inherits.
func wasStarted(pid int, root string) bool {
	_, filters := firstproc.State(pid)
	_, ours := firstproc.State(os.Getpid())
	return filters >= ours+2 || host.Runs(pid, root)
}

func startWithoutDelegate(j *state.Brief, root string) (known bool, err error) {
	fd, err := unix.PidfdOpen(j.InitPid, 0)
	if err != nil || !j.InitAlive() { // it may be another's by now
		return false, nil
	}
	defer unix.Close(fd)
	return delegate.Start(j.DelegateState(), fd, func() error {
		if frozen(j.CgroupDirs) {
			return errors.New("cannot start a container in the paused state") // runc's message
		}
		if wasStarted(j.InitPid, root) {
			return delegate.ErrRuns
		}
		return nil
	})
}

// processesGone reports that a jail of the fast path was made completely, and its processes have
// ended.
func processesGone(j *state.Brief) bool {
	return j.Direct && j.InitPid != 0 && (j.Ended || j.Init().Gone())
}

// frozen reports whether one of the control groups is frozen (freezer of cgroups(7)).
func frozen(dirs []string) bool {
	for _, dir := range dirs {
		for file, thawed := range map[string]string{"freezer.state": "THAWED", "cgroup.freeze": "0"} {
			if !cgroups.CanHave(dir, file) {
				continue
			}
			text, err := cgroups.Read(dir, file)
			if err == nil && strings.TrimSpace(text) != thawed {
				return true
			}
		}
	}
	return false
}

// deleteWithoutDelegate removes a jail whose processes have ended.
func (r *Runtime) deleteWithoutDelegate(j *state.Brief, force bool) error {
	defer r.step("cleanup")()
	_, err := os.Lstat(j.DelegateState())
	missing := errors.Is(err, os.ErrNotExist)
	j.Ended = true
	workspace.KeepMounted()
	r.book().End(j, nil)
	if err := removeDelegateState(j); err != nil {
		return err
	}
	crash.Point("delete.delegated")
	if err := r.cleanup(j); err != nil {
		return err
	}
	crash.Point("delete.released")
	if missing && !force {
		return errNotOurs(j.ID) // the delegate's own error
	}
	return nil
}

// removeDelegateState removes the jail's control groups and the delegate's directory. The groups
// are first: they are known only while that directory exists.
func removeDelegateState(j *state.Brief) error {
	if err := removeCgroups(j); err != nil {
		return err
	}
	j.Removed, j.CgroupDirs = j.CgroupDirs, nil // gone, for the cleanup that follows
	if err := os.RemoveAll(j.DelegateState()); err != nil {
		return fmt.Errorf("removing the delegate's record: %w", err)
	}
	return nil
}
