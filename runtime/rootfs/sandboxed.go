package rootfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
)

// An outerMount is a mount that the delegate makes: its place with links resolved, and its index in
// the staged spec.
type outerMount struct {
	place string
	index int
}

// outerMounts are those that remain in the spec. A mount that was added after links were resolved
// is at its destination.
func (s *stager) outerMounts() (out []outerMount) {
	for i, m := range s.Spec.Mounts {
		if _, nested := s.nested.enclosing[i]; nested {
			continue
		}
		place := path.Clean(m.Destination)
		if i < len(s.places) {
			place = s.places[i]
		}
		out = append(out, outerMount{place, len(out)})
	}
	return out
}

// AttachToSources is AttachProtected for a sandbox, which does not use the mount namespace that it
// is in: the protection is mounted in this thread's, below the sources of the spec's bind mounts,
// which bring it along.
func (s *Staged) AttachToSources(spec *specs.Spec) error {
	for _, a := range s.attach {
		m, rel := s.holding(spec, a.path)
		if m == nil {
			return fmt.Errorf("protecting %s: no bind mount has it", a.path)
		}
		m.Options = slices.Clone(m.Options)
		if i := slices.Index(m.Options, "bind"); i >= 0 {
			m.Options[i] = "rbind"
		}
		root, err := unix.Open(m.Source, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			return fmt.Errorf("protecting %s: opening %s: %w", a.path, m.Source, err)
		}
		a.path = rel
		err = a.mount(root)
		unix.Close(root)
		if err != nil {
			return fmt.Errorf("protecting %s in %s: %w", rel, m.Destination, err)
		}
	}
	return nil
}

// holding is the spec's mount that has a path of the jail, and the path below it.
func (s *Staged) holding(spec *specs.Spec, name string) (m *specs.Mount, rel string) {
	longest := -1
	for _, o := range s.outer {
		below, ok := pathname.Rel(name, o.place)
		if ok && len(o.place) >= longest {
			longest, m, rel = len(o.place), &spec.Mounts[o.index], below
		}
	}
	return m, rel
}

// Add adds a mount to the staged spec.
func (s *Staged) Add(spec *specs.Spec, m specs.Mount) {
	s.outer = append(s.outer, outerMount{m.Destination, len(spec.Mounts)})
	s.Places = append(s.Places, m.Destination)
	spec.Mounts = append(spec.Mounts, m)
}

// MakeRoom mounts an empty file system of container root's on the staged root wherever the spec has
// one below which it has a bind mount. A sandbox makes the former in its own kernel, and needs
// the latter's mount point in the root, where its helper may write to nothing of another owner.
func (s *Staged) MakeRoom(spec *specs.Spec, uid, gid uint32) error {
	root, err := OpenDir(spec.Root.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, o := range s.outer {
		if !isBind(&spec.Mounts[o.index]) && slices.ContainsFunc(s.outer, func(x outerMount) bool {
			return isBind(&spec.Mounts[x.index]) && pathname.Below(x.place, o.place)
		}) {
			if err := makeRoom(root, strings.TrimPrefix(o.place, "/"), uid, gid); err != nil {
				return fmt.Errorf("making room for mounts below %s: %w", o.place, err)
			}
		}
	}
	return nil
}

func isBind(m *specs.Mount) bool {
	return m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
}

func makeRoom(root *os.File, name string, uid, gid uint32) error {
	if err := makeBelow(root, name, false); err != nil {
		return err
	}
	at, err := openat.Open(int(root.Fd()), name, openat.InRootNoLinks, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	opts := fmt.Sprintf("mode=0755,uid=%d,gid=%d,size=65536,nr_inodes=1024", uid, gid)
	return unix.Mount(mountSource, openat.Proc(at), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, opts)
}

// EmptyDir reports whether a directory of the root has no entries, or is missing, and nothing is
// mounted there by the spec.
func (s *Staged) EmptyDir(name string) (bool, error) {
	if slices.ContainsFunc(s.outer, func(o outerMount) bool { return o.place == "/"+name }) {
		return false, nil
	}
	f, err := openat.File(int(s.Root.Fd()), name, openat.InRootNoLinks, unix.O_RDONLY|unix.O_DIRECTORY)
	switch {
	case errors.Is(err, unix.ENOENT):
		return true, nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking into /%s of the root: %w", name, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(1)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("looking into /%s of the root: %w", name, err)
	}
	return len(names) == 0, nil
}
