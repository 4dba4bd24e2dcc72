package rootless

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// podmans are where Podman is.
var podmans = []string{"/usr/bin/podman", "/usr/local/bin/podman"}

// Join runs an ordinary user's call again in the user namespace of
// the user's own Podman (podman-unshare(1)): the user's jails are inside it, and
// only from there can they be looked at. It returns true where this process is in
// the right place, and false where there is no Podman.
func Join() (bool, error) {
	if os.Geteuid() == 0 || Inside() {
		return true, nil
	}
	self, err := thisProgram()
	if err != nil {
		return false, fmt.Errorf("finding this program: %w", err)
	}
	for _, podman := range podmans {
		if unix.Access(podman, unix.X_OK) != nil {
			continue
		}
		args := append([]string{"podman", "unshare", "--", self}, os.Args[1:]...)
		return false, fmt.Errorf("running %s unshare: %w", podman, syscall.Exec(podman, args, os.Environ()))
	}
	return false, nil
}

// MustEnter runs an ordinary user's call again in a user namespace with the ids that the user's
// jails have: one of its own, or Podman's.
func MustEnter() error {
	if os.Geteuid() == 0 || Inside() {
		return nil
	}
	err := Enter()
	if there, jerr := Join(); there || jerr != nil {
		return jerr
	}
	return fmt.Errorf("uid %d is not root: %w", os.Geteuid(), err)
}

// MustJoin is Join for calls that make no sense elsewhere.
func MustJoin() error {
	there, err := Join()
	if err == nil && !there {
		err = fmt.Errorf("uid %d is not root, and there is no podman whose jails could be meant (remedy: %s)", os.Geteuid(), WithSudo())
	}
	return err
}
