package lifecycle

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
)

// expediteMoves begins what the first move of a process into a control group waits for:
// a grace period of RCU, some 10 ms in which a delegate does nothing else. The
// kernel keeps the way open for about as long after each move
// (cgroup_threadgroup_rwsem and kernel/rcu/sync.c), so one that moves nothing,
// made while the bundle is read, spares the delegate the waiting. This process
// is "moved" to where it is, once in a while until stop is called. Where it may
// not, everything takes as long as it always did.
func expediteMoves() (stop func()) {
	const every, most = 4 * time.Millisecond, 10
	done := make(chan struct{})
	go func() {
		fd := ownGroup()
		if fd < 0 {
			return
		}
		defer unix.Close(fd)
		for range most {
			if _, err := unix.Write(fd, []byte("0")); err != nil {
				return
			}
			select {
			case <-done:
				return
			case <-time.After(every):
			}
		}
	}()
	return func() { close(done) }
}

// ownGroup opens, to be written, the list of processes of one of the control
// groups that this process is in; which does not matter.
func ownGroup() int {
	own, err := cgroups.Of("self")
	if err != nil {
		return -1
	}
	for _, g := range own {
		for _, root := range g.Mounts(cgroups.Root) {
			path := filepath.Join(root, g.Path, "cgroup.procs")
			if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
				return fd
			}
		}
	}
	return -1
}
