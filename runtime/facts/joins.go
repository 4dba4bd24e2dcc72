package facts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/state"
)

// joinedNamespaces returns the namespaces that the spec wants to join. A namespace counts only if
// its user namespace is a live jail's (NS_GET_USERNS, ioctl_nsfs(2)). members are the ids of all
// jails in those user namespaces: the containers of a pod have the engine's files for the pod's
// first one, and each other's ids.
func (g Gatherer) joinedNamespaces(s *specs.Spec) (out map[specs.LinuxNamespaceType]harden.Join, members []string, err error) {
	out = map[specs.LinuxNamespaceType]harden.Join{}
	if s.Linux == nil {
		return out, nil, nil
	}
	named := map[uint64]*state.Brief{} // by user namespace, the jail that stands for it
	in := map[specs.LinuxNamespaceType]uint64{}
	for _, ns := range s.Linux.Namespaces {
		if ns.Path == "" {
			continue
		}
		if !filepath.IsAbs(ns.Path) {
			return nil, nil, fmt.Errorf("linux.namespaces[%s].path %q is not an absolute path", ns.Type, ns.Path)
		}
		join, jails, userns, err := g.joinedNamespace(ns)
		if err != nil {
			return nil, nil, fmt.Errorf("linux.namespaces[%s].path %s: %w", ns.Type, ns.Path, err)
		}
		if join.Pinned || len(jails) > 0 {
			out[ns.Type] = join
		}
		for _, x := range jails {
			members = append(members, x.ID)
			in[ns.Type] = userns
			// The jail that a path names, where one does.
			if named[userns] == nil || strings.HasPrefix(ns.Path, fmt.Sprintf("/proc/%d/", x.InitPid)) {
				named[userns] = x
			}
		}
	}
	for kind, userns := range in {
		j, jail := out[kind], named[userns]
		all, err := g.Store.InNamespace(g.Root, "user", userns)
		if err != nil {
			return nil, nil, err
		}
		j.Capabilities = jail.Capabilities
		for _, x := range all {
			j.Most, j.SetGID = append(j.Most, x.Capabilities...), j.SetGID || x.SetGID
		}
		j.Jail, j.UserNS = jail.ID, fmt.Sprintf("/proc/%d/ns/user", jail.InitPid)
		out[kind] = j
	}
	slices.Sort(members)
	return out, slices.Compact(members), nil
}

// joinedNamespace returns one namespace that the spec wants to join, the jails in it or in the user
// namespace that owns it, and the inode of that user namespace.
func (g Gatherer) joinedNamespace(ns specs.LinuxNamespace) (join harden.Join, jails []*state.Brief, userns uint64, err error) {
	f, err := namespace.Open(ns.Path)
	if err != nil {
		return join, nil, 0, err
	}
	defer f.Close()
	if ns.Type == specs.NetworkNamespace {
		if join, jails, err = g.networkContents(f); err != nil {
			return join, nil, 0, err
		}
		if len(jails) > 0 {
			if userns, err = namespace.Inode(jails[0].InitPid, "user"); err != nil {
				err = fmt.Errorf("jail %s: %w", jails[0].ID, err)
			}
			return join, jails, userns, err
		}
		if join.Pinned {
			return join, nil, 0, nil
		}
		join.Mode = network.Empty
	}
	if userns, err = owningUsernsInode(f, ns.Type); err != nil || userns == 0 {
		return join, nil, 0, err
	}
	jails, err = g.Store.InNamespace(g.Root, "user", userns)
	return join, jails, userns, err
}

// networkContents returns what a network namespace holds that a spec wants to join, and the jails
// that are in it. A namespace that holds something is identified by the live jails with such a
// network that are in it, which is how the containers of a pod name their sandbox's; else by a file
// that keeps it (ip-netns(8), CNI), which takes root to make. An empty one is identified by its
// owner, which the caller looks up: join is then the zero value, as for the namespace of a process
// that is no jail, and for the host's under any name.
func (g Gatherer) networkContents(ns *os.File) (join harden.Join, in []*state.Brief, err error) {
	if hosts, err := seal.IsHosts(ns); err != nil || hosts {
		return join, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(ns.Fd()), &st); err != nil {
		return join, nil, err
	}
	jails, err := g.Store.InNamespace(g.Root, "net", st.Ino)
	if err != nil {
		return join, nil, err
	}
	for _, j := range jails {
		if j.Network.Mode != network.Empty && (join.Mode == "" || join.Mode == j.Network.Mode) {
			join.Mode, in = j.Network.Mode, append(in, j)
		}
	}
	if len(jails) > 0 {
		return join, in, nil // the owner identifies an empty one
	}
	// The name of a namespace that is reached through /proc/PID/ns is no path.
	name, err := openat.Name(int(ns.Fd()))
	if err != nil {
		return join, nil, err
	}
	join.Pinned = strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "/proc/")
	return join, nil, nil
}

// owningUsernsInode returns the inode of the user namespace that owns a namespace. A user namespace
// owns itself.
func owningUsernsInode(ns *os.File, kind specs.LinuxNamespaceType) (uint64, error) {
	fd := int(ns.Fd())
	owner := fd
	if kind != specs.UserNamespace {
		const nsGetUserns = 0xb701
		o, err := unix.IoctlRetInt(fd, nsGetUserns)
		if err == unix.EPERM {
			return 0, nil // an ancestor of ours: certainly no jail's
		}
		if err != nil {
			return 0, err
		}
		owner = o
		defer unix.Close(owner)
	}
	var st unix.Stat_t
	if err := unix.Fstat(owner, &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}
