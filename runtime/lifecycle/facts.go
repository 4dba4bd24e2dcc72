package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/state"
)

// assignIDs assigns host ids to the jail: its own block of the pool, that of the jail whose
// namespaces it joins, or the engine's mapping. The record has them once it is saved again:
// Store.Release finds them also without.
func (r *Runtime) assignIDs(j *state.Jail, p *prepared) error {
	if m, ok := ringfault.IDs(); ok {
		j.IDs = m
		return nil
	}
	l := p.b.Spec.Linux
	if join, _ := harden.Shared(l, p.facts.Joins, r.Policy.Network); join.Jail != "" {
		other, err := r.Store.Brief(state.Key(r.Globals.Root, join.Jail))
		if err != nil {
			return fmt.Errorf("joining jail %s: %w", join.Jail, err)
		}
		j.IDs = other.IDs
		j.Userns = other.Userns
		if !other.IDs.Given {
			return r.Store.Share(j.Userns, j.IDs, j.Key)
		}
		return nil
	}
	if m, ok, err := r.engineIDs(l); err != nil || ok {
		j.IDs = m
		return err
	}
	m, err := r.Store.Allocate(r.Policy.Userns, j.Key)
	if err != nil {
		return err
	}
	if mode, err := modes.Named(r.Policy.Network.Mode); err == nil && mode.Terms(mode.Decide(network.Found{})).SpareID {
		m = m.WithoutSpare()
	}
	j.IDs = m
	return nil
}

// engineIDs returns the ids that the engine has chosen. Those of a rootless engine are
// its user's: without a mapping for the container, all that the user has, in a
// user namespace inside the engine's. A mapping of all of the host's ids to
// themselves is as good as none (Podman 5: keep-id for root).
func (r *Runtime) engineIDs(l *specs.Linux) (m idmap.Map, ok bool, err error) {
	mapped := l != nil && len(l.UIDMappings) > 0 && len(l.GIDMappings) > 0 &&
		!(idmap.Host(l.UIDMappings) && idmap.Host(l.GIDMappings))
	switch {
	case rootless.Inside() && mapped:
		m, err = idmap.ForUser(l.UIDMappings, l.GIDMappings)
	case rootless.Inside():
		uids, gids, merr := rootless.Maps()
		if merr != nil {
			return m, true, fmt.Errorf("the ids of the user who runs the engine: %w", merr)
		}
		m, err = idmap.ForUser(uids, gids)
	case mapped:
		m, err = idmap.ForEngine(r.Policy.Userns.Pool, l.UIDMappings, l.GIDMappings)
	default:
		return m, false, nil
	}
	return m, true, err
}

// nodes returns the host's own device nodes with the names that policy allows.
func nodes(names []string) map[string]harden.Node {
	out := map[string]harden.Node{}
	for _, name := range names {
		var st unix.Stat_t
		if unix.Stat(name, &st) != nil {
			continue // then there is nothing to allow
		}
		n := harden.Node{Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev))}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFCHR:
			n.Type = "c"
		case unix.S_IFBLK:
			n.Type = "b"
		default:
			continue
		}
		out[name] = n
	}
	return out
}

// joinedNamespaces returns the namespaces that the spec wants to join. A namespace counts only if
// its user namespace is a live jail's (NS_GET_USERNS, ioctl_nsfs(2)). members are the ids of all
// jails in those user namespaces: the containers of a pod have the engine's files for the pod's
// first one, and each other's ids.
func (r *Runtime) joinedNamespaces(s *specs.Spec) (out map[specs.LinuxNamespaceType]harden.Join, members []string, err error) {
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
		join, jails, userns, err := r.joinedNamespace(ns)
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
		j := out[kind]
		j.Jail, j.UserNS = named[userns].ID, fmt.Sprintf("/proc/%d/ns/user", named[userns].InitPid)
		out[kind] = j
	}
	slices.Sort(members)
	return out, slices.Compact(members), nil
}

// joinedNamespace returns one namespace that the spec wants to join, the jails in it or in the user
// namespace that owns it, and the inode of that user namespace.
func (r *Runtime) joinedNamespace(ns specs.LinuxNamespace) (join harden.Join, jails []*state.Brief, userns uint64, err error) {
	f, err := namespace.Open(ns.Path)
	if err != nil {
		return join, nil, 0, err
	}
	defer f.Close()
	if ns.Type == specs.NetworkNamespace {
		if join, jails, err = r.networkContents(f); err != nil {
			return join, nil, 0, err
		}
		if len(jails) > 0 {
			userns, err = usernsInode(jails[0])
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
	jails, err = r.jailsIn("user", userns)
	return join, jails, userns, err
}

// usernsInode returns the inode of a live jail's user namespace.
func usernsInode(j *state.Brief) (uint64, error) {
	ino, err := namespace.Inode(j.InitPid, "user")
	if err != nil {
		return 0, fmt.Errorf("jail %s: %w", j.ID, err)
	}
	return ino, nil
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

// jailsIn returns the live jails whose namespace of that kind, by its name in /proc/PID/ns, has
// this inode.
func (r *Runtime) jailsIn(kind string, ino uint64) ([]*state.Brief, error) {
	keys, err := r.Store.Keys()
	if err != nil {
		return nil, err
	}
	var out []*state.Brief
	for _, k := range keys {
		j, err := r.Store.Brief(k)
		if err != nil || j.DelegateRoot != r.Globals.Root || !j.InitAlive() {
			continue
		}
		if has, err := namespace.Inode(j.InitPid, kind); err == nil && has == ino {
			out = append(out, j)
		}
	}
	return out, nil
}

// Where engines mount a container's root, as patterns of path elements below
// their storage directory; * is one element.
var rootPatterns = []string{
	"overlay2/*/merged",                        // Docker, overlay2 driver
	"overlay/*/merged",                         // containers/storage
	"overlay-containers/*/userdata/rootfs",     // containers/storage, a bundle of CRI-O's in its directory of state
	"vfs/dir/*",                                // Docker, vfs driver
	"btrfs/subvolumes/*",                       // Docker, btrfs driver
	"rootfs/*/*",                               // Docker, containerd image store
	"io.containerd.runtime.v2.task/*/*/rootfs", // containerd
}

// engineStorage guesses the engine's storage directory from the place of the root,
// since it can be configured; the well-known ones are refused anyway.
func engineStorage(root, bundleDir string) []string {
	var out []string
	for _, path := range []string{root, filepath.Join(bundleDir, "rootfs")} {
		parts := strings.Split(path, "/")
		for _, pat := range rootPatterns {
			want := strings.Split(pat, "/")
			if len(parts) <= len(want)+1 {
				continue
			}
			tail := parts[len(parts)-len(want):]
			match := true
			for i := range want {
				match = match && (want[i] == "*" || want[i] == tail[i])
			}
			if match {
				out = append(out, strings.Join(parts[:len(parts)-len(want)], "/"))
			}
		}
	}
	return out
}

// onHostThread runs f on a thread in the host's mount namespace, which the thread of Create has
// left.
func onHostThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- thread.Caught(f)
	}()
	return <-done
}
