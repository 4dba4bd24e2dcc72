package firstproc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/rootfs"
)

// Mounts returns the mounts of a process.
func Mounts(pid int) ([]mountinfo.Mount, error) {
	mounts, err := mountinfo.Of(pid)
	if err != nil {
		return nil, fmt.Errorf("the jail's mounts: %w", err)
	}
	return mounts, nil
}

// mountPoints returns the paths of mounts.
func mountPoints(mounts []mountinfo.Mount) []string {
	out := make([]string, len(mounts))
	for i := range mounts {
		out[i] = mounts[i].Point
	}
	return out
}

// SettleMounts checks the mounts that the delegate has made by spec, and completes them by the
// staged ones. It returns them without the synthetic files that it adds. Errors: a refusal.Error
// for a mount that ended elsewhere, or for a working directory outside the jail.
func SettleMounts(pid int, spec *specs.Spec, staged *rootfs.Staged) ([]mountinfo.Mount, error) {
	// The mounts are read once: a jail has a hundred. The following steps only add synthetic files.
	mounts, err := Mounts(pid)
	if err != nil {
		return nil, err
	}
	if missing := missingMounts(staged.Nested, mounts); len(missing) > 0 {
		if mounts, err = attachMissing(pid, missing); err != nil {
			return nil, err
		}
	}
	if err := checkPlaces(spec, staged.Places, mounts); err != nil {
		return nil, err
	}
	if err := addMounts(pid, mounts, staged); err != nil {
		return nil, err
	}
	return mounts, checkCwd(pid, mounts)
}

// addMounts works in the waiting jail's mount namespace. It caps each tmpfs that the delegate
// mounted without a size, and attaches the jail's synthetic files.
func addMounts(pid int, mounts []mountinfo.Mount, st *rootfs.Staged) error {
	tighten := looseMounts(mounts, st.Late)
	if len(tighten) == 0 && len(st.Synthetic) == 0 && !st.Attaches() {
		return nil
	}
	return namespace.InMount(pid, func() error {
		for _, m := range tighten {
			if m.at == cgroups.Root {
				if err := capTmpfs(m.at); err != nil {
					return err
				}
			}
			if err := m.tighten(); err != nil {
				return err
			}
		}
		if err := st.AttachSynthetic(); err != nil {
			return err
		}
		return st.AttachProtected()
	})
}

// A looseMount is a mount that the delegate has made with fewer restrictions than requested.
type looseMount struct {
	at       string
	writable bool // and may stay so
}

// looseMounts returns the mounts that a delegate makes by itself and restricts too little.
//
// The first kind is each tmpfs that can be written to: the one that holds the control groups of
// version 1, which is the jail's own in its user namespace, and masks. crun puts masks below a
// read-only path ("/proc/sys/dev") before it binds that path onto itself, and the copies of the
// masks are writable. Their size of 0 means unlimited (tmpfs(5)), which cannot be changed back, but
// nothing has to be written there. Masks that are a node or a synthetic file on a tmpfs of ours are
// not its root.
//
// The second kind has lost the flags that the bundle requests, with crun 1.8: the read-only paths
// of /proc, which it binds, and a pod's mqueue, which it cannot mount in a user namespace that it
// joined.
//
// The third kind are those at late, which staging leaves so.
func looseMounts(mounts []mountinfo.Mount, late []string) []looseMount {
	var out []looseMount
	for i := range mounts {
		m := &mounts[i]
		if slices.ContainsFunc(out, func(o looseMount) bool { return o.at == m.Point }) {
			continue
		}
		below := strings.HasPrefix(m.Point, "/proc/")
		switch {
		case m.FS == "tmpfs" && (m.Point == cgroups.Root || below && m.Root == "/" && !m.Has("ro")):
			out = append(out, looseMount{at: m.Point})
		case m.FS == "proc" && below && len(m.Lacks("nosuid", "nodev", "noexec", "ro")) > 0:
			out = append(out, looseMount{at: m.Point})
		case slices.Contains(late, m.Point):
			out = append(out, looseMount{at: m.Point})
		case m.FS == "mqueue" && len(m.Lacks("nosuid", "nodev", "noexec")) > 0:
			out = append(out, looseMount{at: m.Point, writable: true})
		}
	}
	return out
}

// capTmpfs leaves the tmpfs at path hardly any room. Reconfiguration by fspick(2) keeps its files.
func capTmpfs(path string) error {
	fs, err := unix.Fspick(unix.AT_FDCWD, path, unix.FSPICK_CLOEXEC|unix.FSPICK_SYMLINK_NOFOLLOW)
	if err == nil {
		defer unix.Close(fs)
		err = errors.Join(unix.FsconfigSetString(fs, "size", "65536"), unix.FsconfigSetString(fs, "nr_inodes", "128"),
			unix.FsconfigReconfigure(fs))
	}
	if err != nil {
		return fmt.Errorf("capping %s: %w", path, err)
	}
	return nil
}

// tighten forbids set-id bits, devices and programs on the mount, and writing unless the mount may
// stay writable.
func (m looseMount) tighten() error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}
	if !m.writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, m.at, unix.AT_SYMLINK_NOFOLLOW, &attr); err != nil {
		return fmt.Errorf("restricting the mount at %s: %w", m.at, err)
	}
	return nil
}
