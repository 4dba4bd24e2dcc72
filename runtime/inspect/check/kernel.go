package check

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/thread"
)

// privilegesNeeded are the privileges that agentjail, and the delegate after it, work with
// (capabilities(7)).
var privilegesNeeded = []struct {
	bit  uint
	name string
	why  string
}{
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "mounts and namespaces"},
	{unix.CAP_SETUID, "CAP_SETUID", "id maps"},
	{unix.CAP_SETGID, "CAP_SETGID", "id maps"},
	{unix.CAP_CHOWN, "CAP_CHOWN", "the layer's owners"},
	{unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", "images and directories of others"},
	{unix.CAP_MKNOD, "CAP_MKNOD", "device nodes"},
	{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "the network seal"},
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "looking at jails from outside"},
}

// privileges: jails are made by root of the machine itself. A rootless engine's
// root is root of its user namespace only (user_namespaces(7)).
func privileges(*env) answer {
	if os.Geteuid() != 0 {
		return fail("run it as root; for jails of your own, install podman and uidmap, and run it again",
			"uid %d is not root, and there is no podman to make a user namespace of its ids", os.Geteuid())
	}
	// The initial user namespace maps every id to itself.
	m, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return fail("mount /proc", "reading the id map: %v", err)
	}
	if f := strings.Fields(string(m)); len(f) != 3 || f[0] != "0" || f[1] != "0" || f[2] != "4294967295" {
		return fail("run the engine as root of the machine: rootless engines cannot map ids of their own",
			"root of a user namespace only (map %q)", strings.Join(f, " "))
	}
	has, err := effective()
	if err != nil {
		return fail("", "reading the capabilities: %v", err)
	}
	var lacking []string
	for _, c := range privilegesNeeded {
		if !has(c.bit) {
			lacking = append(lacking, c.name+" ("+c.why+")")
		}
	}
	if len(lacking) > 0 {
		return fail("start the engine with all capabilities", "root lacks %s", strings.Join(lacking, ", "))
	}
	if !has(unix.CAP_SYS_RESOURCE) {
		return warn("add CAP_SYS_RESOURCE to the engine",
			"root of the machine, but without CAP_SYS_RESOURCE: limits of the engine's own cannot be raised for a jail, and a jail's processes can make the host's own be killed before them when memory runs out (oom_score_adj)")
	}
	return ok("root of the machine")
}

// effective returns a function that reports whether this thread has a capability.
func effective() (has func(bit uint) bool, err error) {
	var data [2]unix.CapUserData
	err = unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	return func(bit uint) bool { return data[bit/32].Effective&(1<<(bit%32)) != 0 }, err
}

// plainNamespaces makes the namespaces that every kernel of the last decade
// has.
func plainNamespaces(*env) answer {
	err := thread.Own(func() error {
		for _, n := range []struct {
			flag int
			name string
		}{
			{unix.CLONE_NEWNS, "mount"},
			{unix.CLONE_NEWPID, "pid"},
			{unix.CLONE_NEWNET, "net"},
			{unix.CLONE_NEWIPC, "ipc"},
			{unix.CLONE_NEWUTS, "uts"},
		} {
			if err := unix.Unshare(n.flag); err != nil {
				return fmt.Errorf("%s namespace: %w", n.name, err)
			}
		}
		return nil
	})
	return tried(err, "raise the sysctls user.max_*_namespaces, or boot a kernel with namespaces", "mount, pid, net, ipc, uts made")
}

func cgroupNamespace(*env) answer {
	err := thread.Own(func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) })
	return tried(err, "raise the sysctl user.max_cgroup_namespaces, or boot Linux 4.6 or later", "made")
}

// timeNamespace prepares one (time_namespaces(7)). Entering it takes a process
// of its own, whose success the preparation decides.
func timeNamespace(*env) answer {
	err := thread.Own(func() error {
		before, err := inode("/proc/thread-self/ns/time_for_children")
		if err != nil {
			return err
		}
		if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
			return err
		}
		after, err := inode("/proc/thread-self/ns/time_for_children")
		if err == nil && before == after {
			err = errors.New("the kernel took the call, but made none")
		}
		return err
	})
	if err != nil {
		return fail("boot Linux 5.6 or later with CONFIG_TIME_NS", "%v: jails see the host's uptime", err)
	}
	return ok("made: jails' clocks begin near zero")
}

func inode(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return st.Ino, nil
}

// userNamespace makes one with the map that the next jail would get.
func userNamespace(e *env) answer {
	f, err := fork.UserNS(mapText(e.policy), mapText(e.policy))
	f.Close()
	return tried(err, "set the sysctl user.max_user_namespaces above 0", "made, with %d ids of its own", idmap.RangeSize)
}
