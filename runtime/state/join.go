package state

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/kernel/rootless"
)

// Join executes an ordinary user's call again where the processes of a jail can be reached: in the
// user namespace that the jail was made in. For root, in that namespace, and for a jail without
// processes it returns nil.
func (j *Brief) Join() error {
	if os.Geteuid() == 0 || rootless.Inside() || !j.Bound && !j.InitAlive() {
		return nil
	}
	if !j.Bound { // a jail of the user's engine
		return rootless.MustJoin()
	}
	ns, err := j.madeIn()
	if err != nil {
		return fmt.Errorf("the user namespace that %s was made in: %w", j.ID, err)
	}
	if ns == nil {
		return nil
	}
	defer ns.Close()
	return rootless.EnterIn(ns)
}

// madeIn returns the user namespace that the jail was made in: its maker's, or the parent of its
// first process's; nil where neither process lives.
func (j *Brief) madeIn() (*os.File, error) {
	if j.CreatorAlive() {
		ns, err := namespace.Open(fmt.Sprintf("/proc/%d/ns/user", j.CreatorPid))
		if err != nil || j.CreatorAlive() { // the number is still the maker's
			return ns, err
		}
		ns.Close()
	}
	if !j.InitAlive() {
		return nil, nil
	}
	own, err := namespace.Open(fmt.Sprintf("/proc/%d/ns/user", j.InitPid))
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		// The init step, which no user can read (ptrace(2)), or it ended meanwhile. Its maker has
		// ended: so does the step.
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer own.Close()
	fd, err := unix.IoctlRetInt(int(own.Fd()), unix.NS_GET_PARENT)
	if err != nil {
		return nil, os.NewSyscallError("NS_GET_PARENT", err)
	}
	return os.NewFile(uintptr(fd), "the parent of "+own.Name()), nil
}

// JoinAny is Join for the jail of this user's that has an id. It reports whether there is one.
func JoinAny(id string) (bool, error) {
	if os.Geteuid() == 0 || rootless.Inside() {
		return true, nil
	}
	s, err := Default()
	if err != nil {
		return false, err
	}
	jails, err := s.WithID(id)
	if err != nil || len(jails) == 0 {
		return false, err
	}
	return true, jails[0].Join()
}
