package seal

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
)

// SealFresh makes a temporary network namespace and seals it, to find out whether this host can
// seal a jail's namespace. The caller needs the privileges of Seal.
func SealFresh() (Report, error) {
	var r Report
	err := thread.Own(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		ns, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer ns.Close()
		// Another thread calls Seal, which refuses its caller's own namespace.
		sealed := make(chan error, 1)
		go func() {
			var err error
			r, err = Seal(ns)
			sealed <- err
		}()
		return <-sealed
	})
	return r, err
}
