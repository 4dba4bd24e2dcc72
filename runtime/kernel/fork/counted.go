package fork

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UserNSOf is UserNS for a namespace that the host's user uid makes. The kernel counts some
// resources by user: inotify's watches and instances, pending signals, the bytes of message queues,
// namespaces. The use of them in a user namespace counts in the namespace above for its maker as
// well, and so on upwards (inc_ucount in kernel/ucount.c, inc_rlimit_ucounts). Namespaces that the
// machine's root makes all share root's counts there; a namespace that a user of its own makes has
// its own counts.
//
// The child that makes it keeps all capabilities: kernels that allow the making
// to privileged users only look at those (kernel.unprivileged_userns_clone,
// kernel.apparmor_restrict_unprivileged_userns). Its real user stays root, on
// whom RLIMIT_NPROC does not bind: the namespace as a whole gets the limit of its
// maker (enforced_nproc_rlimit in kernel/user_namespace.c). The caller is the
// machine's root.
//
// RLIMIT_SIGPENDING bounds each user of the namespace alone. All of them together have at most
// signals pending signals, and at most as many as the caller: the kernel compares the count of the
// maker with the maker's limit at the making (set_userns_rlimit_max, Linux 5.14). All namespaces
// that one user made share that count.
func UserNSOf(uid, gid uint32, signals uint64, uidMap, gidMap string) (*os.File, error) {
	s := new(script)
	if err := s.become(uid, gid); err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", err)
	}
	limit := new(unix.Rlimit)
	if err := unix.Getrlimit(unix.RLIMIT_SIGPENDING, limit); err != nil {
		return nil, fmt.Errorf("making a user namespace: reading the limit on pending signals: %w", err)
	}
	limit.Cur = min(limit.Cur, signals)
	s.pin.Pin(limit)
	s.add("limiting pending signals", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_SIGPENDING, uintptr(unsafe.Pointer(limit)), 0)
	s.add("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	return s.makesUserNS(0, uidMap, gidMap)
}

// become appends what makes the child this effective user with all capabilities.
func (s *script) become(uid, gid uint32) error {
	head := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := new([2]unix.CapUserData)
	if err := unix.Capget(head, &data[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	for i := range data {
		data[i].Effective = data[i].Permitted
	}
	head.Pid = 0
	s.pin.Pin(head)
	s.pin.Pin(data)
	const same = ^uintptr(0)
	s.add(fmt.Sprintf("becoming group %d", gid), unix.SYS_SETRESGID, same, uintptr(gid), same)
	s.add(fmt.Sprintf("becoming user %d", uid), unix.SYS_SETRESUID, same, uintptr(uid), same)
	s.add("keeping capabilities", unix.SYS_CAPSET, uintptr(unsafe.Pointer(head)), uintptr(unsafe.Pointer(data)))
	return nil
}
