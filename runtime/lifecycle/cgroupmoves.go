package lifecycle

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
)

// expediteMoves starts the wait of the first move of a process into a control group: a grace period
// of RCU, some 10 ms in which a delegate does nothing else. After each move the kernel needs no
// further grace period for about as long (cgroup_threadgroup_rwsem and kernel/rcu/sync.c). A move
// without effect, made while the bundle is read, therefore spares the delegate the wait. This
// process is "moved" to its own group, repeatedly until stop is called. Without permission to do
// so, only the time is lost.
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

// ownGroup opens for writing the list of processes of any one of the control groups that this
// process is in.
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
