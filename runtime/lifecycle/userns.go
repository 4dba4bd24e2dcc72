package lifecycle

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/state"
)

// A jail's user namespace is made here, by the jail's own host user, and joined by the delegate.
// The resources that the kernel counts by user are then the jail's own, up to the top
// (fork.UserNSOf). Only this process and the jail's processes keep the namespace.

// userNS is a jail's user namespace while the jail is made.
type userNS struct {
	file *os.File
	// making is locked while namespaces are made in it: shared by each process that makes a jail in
	// it, exclusively by the process that forbids further namespaces.
	making *os.File
	// open reports that it was closed to further namespaces, and is not now.
	open bool
}

// made returns the namespace if it is known yet.
func (u *userNS) made() *os.File {
	if u == nil {
		return nil
	}
	return u.file
}

// abandon ends the remains in u after making a jail has failed.
func (u *userNS) abandon(log *logrus.Logger) {
	if u == nil {
		return
	}
	if u.open {
		if err := u.forbid(); err != nil {
			log.Warnf("after making a jail: %v", err)
		}
	}
	if u.making != nil {
		u.making.Close()
	}
	u.file.Close()
}

// specUserNS returns the user namespace of a spec, or nil.
func specUserNS(s *specs.Spec) *specs.LinuxNamespace {
	i := slices.IndexFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.UserNamespace })
	if i < 0 {
		return nil
	}
	return &s.Linux.Namespaces[i]
}

// openUserNS makes the jail's user namespace and has the spec name it, or opens that of another
// jail which the spec names. It returns nil for one that the delegate is to make: a user's own
// engine can act for no other user, and a sandbox joins none.
func (r *Runtime) openUserNS(j *state.Jail, spec *specs.Spec, f harden.Facts) (*userNS, error) {
	ns := specUserNS(spec)
	switch {
	case ns == nil || ns.Path == "" && (f.Host.Rootless || f.Sandbox != ""):
		return nil, nil
	case ns.Path != "":
		return r.joinUserNS(j, ns.Path, f.Joins)
	}
	uid, gid := j.IDs.Owner()
	signals := uint64(math.MaxUint64)
	if !j.IDs.Given { // jails to which the engine gave the same ids have one maker: one could use up all
		signals = plan.RlimitBounds(j.Policy.Limits)["RLIMIT_SIGPENDING"]
	}
	made, err := fork.UserNSOf(uid, gid, signals, idmap.Text(j.IDs.UIDs), idmap.Text(j.IDs.GIDs))
	if err != nil {
		return nil, err
	}
	making, err := r.Store.Making(j.Userns, j.IDs, j.Key)
	if err != nil {
		made.Close()
		return nil, err
	}
	ns.Path = userNSPath(os.Getpid(), made.Fd())
	j.OwnUserNS = ns.Path
	return &userNS{file: made, making: making}, nil
}

// userNSPath returns the path by which a delegate finds a descriptor of this process. The dot keeps
// runc 1.1.12 to 1.1.15, and 1.2, from taking the path for /proc/PID/ns/user. They scan it for
// "/proc/%d", do not check the rest, read /proc/PID/uid_map of this process instead of the
// namespace's, and refuse the bundle since that is another (libcontainer/userns
// GetUserNamespaceMappings).
func userNSPath(pid int, fd uintptr) string { return fmt.Sprintf("/proc/./%d/fd/%d", pid, fd) }

// joinUserNS opens the user namespace of another jail, and raises its limits for the namespaces of
// this one.
func (r *Runtime) joinUserNS(j *state.Jail, path string, joins map[specs.LinuxNamespaceType]harden.Join) (*userNS, error) {
	f, err := namespace.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the user namespace to join: %w", err)
	}
	u := &userNS{file: f}
	var other string
	for _, join := range joins {
		if join.Jail != "" {
			other = state.Key(r.Globals.Root, join.Jail)
		}
	}
	if u.making, err = r.Store.Making(j.Userns, j.IDs, other); err == nil {
		u.open = true
		err = u.limit("2147483647") // as at its making (create_user_ns in kernel/user_namespace.c)
	}
	if err != nil {
		u.abandon(r.Log)
		return nil, fmt.Errorf("raising the limits of the user namespace to join: %w", err)
	}
	return u, nil
}

// limit bounds the namespaces in the user namespace, of every kind but mounts'.
func (u *userNS) limit(most string) error {
	var all []fork.Setting
	for _, path := range fork.NestedLimits() {
		all = append(all, fork.Setting{Path: path, Text: most})
	}
	err := fork.WriteInside(u.file, all)
	if errors.Is(err, unix.EROFS) { // an engine in a container: the filter alone keeps namespaces from being made
		return nil
	}
	return err
}

// forbid has the kernel refuse further namespaces in the user namespace, unless another jail is
// being made in it: then the last process that makes one does so.
func (u *userNS) forbid() error {
	if u.making != nil {
		defer func() { u.making.Close(); u.making, u.open = nil, false }()
		err := unix.Flock(int(u.making.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == unix.EWOULDBLOCK {
			return nil
		}
		if err != nil {
			return fmt.Errorf("locking the user namespace: %w", err)
		}
	}
	if err := u.limit("0"); err != nil {
		remedy := ""
		if errors.Is(err, unix.EACCES) {
			remedy = " (remedy, where SELinux confines the engine: semodule -i hack/selinux/agentjail.cil)"
		}
		return fmt.Errorf("forbidding further namespaces in the jail's user namespace: %w%s", err, remedy)
	}
	return nil
}

// settleUserNS checks the jail's user namespace once all of its namespaces are made, and forbids
// further ones.
func settleUserNS(u *userNS, pid int) error {
	if ringfault.Ring(2) {
		return nil
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return fmt.Errorf("opening the jail's user namespace: %w", err)
	}
	defer f.Close()
	if u == nil {
		return (&userNS{file: f}).forbid()
	}
	same, err := sameFile(f, u.file)
	if err == nil && !same {
		err = refusal.New(refusal.Delegate, "the delegate used a different user namespace")
	}
	if err != nil {
		return fmt.Errorf("the jail's user namespace: %w", err)
	}
	return u.forbid()
}

func sameFile(a, b *os.File) (bool, error) {
	var x, y unix.Stat_t
	err := errors.Join(unix.Fstat(int(a.Fd()), &x), unix.Fstat(int(b.Fd()), &y))
	return x.Dev == y.Dev && x.Ino == y.Ino, err
}
