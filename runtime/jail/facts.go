package jail

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/idmap"
	"agentjail.dev/runtime/internal/without"
	"agentjail.dev/runtime/state"
)

// assignIDs gives the jail its host ids: its own block of the pool, that of the
// jail whose namespaces it joins, or the engine's mapping.
func (w *Way) assignIDs(j *state.Jail, p *prepared) error {
	if m, ok := without.IDs(); ok {
		j.IDs = m
		return nil
	}
	l := p.b.Spec.Linux
	for _, join := range p.facts.Joins {
		if join.Jail == "" {
			continue
		}
		other, err := w.Store.Brief(state.Key(w.Globals.Root, join.Jail))
		if err != nil {
			return fmt.Errorf("joining jail %s: %w", join.Jail, err)
		}
		j.IDs = other.IDs
		j.Userns = other.Userns
		if !other.IDs.Given {
			if err := w.Store.Share(j.Userns, j.IDs, j.Key); err != nil {
				return err
			}
		}
		return w.Store.Save(j)
	}
	if l != nil && len(l.UIDMappings) > 0 && len(l.GIDMappings) > 0 {
		m, err := idmap.ForEngine(w.Policy.Userns, l.UIDMappings, l.GIDMappings)
		if err != nil {
			return err
		}
		j.IDs = m
		return nil
	}
	m, err := w.Store.Allocate(w.Policy.Userns, j.Key)
	if err != nil {
		return err
	}
	j.IDs = m
	return w.Store.Save(j)
}

// nodes looks at the host's own device nodes of the names that policy allows.
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

// joins looks at the namespaces that the spec wants to join. Only one whose
// user namespace is a live jail's counts (NS_GET_USERNS, ioctl_nsfs(2)). members
// are the ids of all jails in those user namespaces: the containers of a pod
// have the engine's files for the pod's first one, and each other's ids.
func (w *Way) joins(s *specs.Spec) (out map[specs.LinuxNamespaceType]harden.Join, members []string, err error) {
	out = map[specs.LinuxNamespaceType]harden.Join{}
	if s.Linux == nil {
		return out, nil, nil
	}
	for _, ns := range s.Linux.Namespaces {
		if ns.Path == "" {
			continue
		}
		if !filepath.IsAbs(ns.Path) {
			return nil, nil, fmt.Errorf("linux.namespaces[%s].path %q is not an absolute path", ns.Type, ns.Path)
		}
		ino, err := ownerOf(ns)
		if err != nil {
			return nil, nil, fmt.Errorf("linux.namespaces[%s].path %s: %w", ns.Type, ns.Path, err)
		}
		if ino == 0 {
			continue
		}
		jails, err := w.jailsIn(ino)
		if err != nil {
			return nil, nil, err
		}
		if len(jails) == 0 {
			continue
		}
		// The jail that the path names, where it names one.
		j := jails[0]
		for _, x := range jails {
			members = append(members, x.ID)
			if strings.HasPrefix(ns.Path, fmt.Sprintf("/proc/%d/", x.InitPid)) {
				j = x
			}
		}
		out[ns.Type] = harden.Join{Jail: j.ID, UserNS: fmt.Sprintf("/proc/%d/ns/user", j.InitPid)}
	}
	slices.Sort(members)
	return out, slices.Compact(members), nil
}

// ownerOf returns the inode of the user namespace that owns the namespace at a
// path: of the namespace itself where it is one.
func ownerOf(ns specs.LinuxNamespace) (uint64, error) {
	fd, err := unix.Open(ns.Path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return 0, err
	}
	if fs.Type != unix.NSFS_MAGIC {
		return 0, fmt.Errorf("not a namespace")
	}
	owner := fd
	if ns.Type != specs.UserNamespace {
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

// jailsIn finds the live jails with this user namespace.
func (w *Way) jailsIn(userns uint64) ([]*state.Brief, error) {
	keys, err := w.Store.Keys()
	if err != nil {
		return nil, err
	}
	var out []*state.Brief
	for _, k := range keys {
		j, err := w.Store.Brief(k)
		if err != nil || j.DelegateRoot != w.Globals.Root || !j.InitAlive() {
			continue
		}
		var st unix.Stat_t
		if unix.Stat("/proc/"+strconv.Itoa(j.InitPid)+"/ns/user", &st) == nil && st.Ino == userns {
			out = append(out, j)
		}
	}
	return out, nil
}

// Where engines mount a container's root, as patterns of path elements below
// their storage folder; * is one element.
var rootPatterns = []string{
	"overlay2/*/merged",  // Docker, overlay2 driver
	"overlay/*/merged",   // containers/storage
	"vfs/dir/*",          // Docker, vfs driver
	"btrfs/subvolumes/*", // Docker, btrfs driver
	"rootfs/*/*",         // Docker, containerd image store
	"io.containerd.runtime.v2.task/*/*/rootfs", // containerd
}

// engineStorage guesses the engine's storage folder from the place of the root,
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

// knowsMore compares the delegate's newest specification with the one that this
// program's types are of.
func knowsMore(ociMax string) bool {
	var have, ours [2]int
	if n, _ := fmt.Sscanf(ociMax, "%d.%d", &have[0], &have[1]); n != 2 {
		return false // before `features` was invented
	}
	_, _ = fmt.Sscanf(specs.Version, "%d.%d", &ours[0], &ours[1])
	return have[0] > ours[0] || have[0] == ours[0] && have[1] > ours[1]
}

// onHostThread runs f on a thread that is still in the host's mount namespace:
// the one of Create is not.
func onHostThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- f()
	}()
	return <-done
}
