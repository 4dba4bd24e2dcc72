package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/state"
)

// checkContainer records the jail's first process and looks at it from outside before
// anything of the image has run.
func (a *attempt) checkContainer() error {
	if a.tty != nil {
		if err := a.tty.receive(); err != nil {
			return err
		}
	}
	pid, err := a.recordFirst()
	if err != nil {
		return err
	}
	if err := boundSockets(pid, a.j); err != nil {
		return err
	}
	// After all limits of the jail's own are there, which are the helper's too.
	if err := helper.Place(a.rt.Store.Dir(a.j.Key), pid); err != nil {
		return err
	}
	check, domain := a.checkJail, a.domain
	if sandboxOf(&a.j.Brief) != "" {
		check, domain = a.checkSandbox, "" // the guest kernel has names of its own
	}
	if err := check(pid); err != nil {
		return err
	}
	if err := setOOMScore(pid, a.j.Process); err != nil {
		return err
	}
	if err := a.writePidFile(pid); err != nil {
		return err
	}
	if err := setDomainname(pid, domain); err != nil {
		return err
	}
	return settleUserNS(a.userns, pid)
}

// checkJail looks at the first process of a jail that has the host's kernel.
func (a *attempt) checkJail(pid int) error {
	mounts, err := a.checkMounts(pid)
	if err != nil {
		return err
	}
	if err := a.registerEBPF(pid, mounts); err != nil {
		return err
	}
	return checkProgram(pid, a.j.Process)
}

// writePidFile writes the first process's number for the caller.
func (a *attempt) writePidFile(pid int) error {
	if a.o.PidFile != "" {
		if err := atomicfile.Write(a.o.PidFile, fmt.Append(nil, pid), 0o644); err != nil {
			return fmt.Errorf("writing the pid file: %w", err)
		}
	}
	crash.Point("create.settled")
	return nil
}

// recordFirst records the jail's first process, whose number the delegate wrote.
func (a *attempt) recordFirst() (pid int, err error) {
	if pid, err = state.ReadPid(a.rt.Store.PidFile(a.j.Key)); err != nil {
		return 0, fmt.Errorf("the delegate left no pid: %w", err)
	}
	start, _, err := state.StartTime(pid)
	if err != nil {
		return 0, fmt.Errorf("the jail's first process: %w", err)
	}
	// Without the number, the parents of a process determine in which of a pod's jails it is.
	mounts, _ := namespace.Inode(pid, "mnt")
	if err := a.rt.Store.First(&a.j.Brief, pid, start, uint32(mounts)); err != nil {
		return 0, fmt.Errorf("recording the jail's first process: %w", err)
	}
	return pid, nil
}

// checkMounts checks the waiting jail's mounts, and completes them. It returns them without the
// synthetic files that it adds.
func (a *attempt) checkMounts(pid int) ([]mountinfo.Mount, error) {
	// The mounts are read once: a jail has a hundred. The following steps only add synthetic files.
	mounts, err := mountsOf(pid)
	if err != nil {
		return nil, err
	}
	if missing := missingMounts(a.staged.Nested, mounts); len(missing) > 0 {
		if mounts, err = attachMissing(pid, missing); err != nil {
			return nil, err
		}
	}
	if err := checkPlaces(a.spec, a.staged.Places, mounts); err != nil {
		return nil, err
	}
	if err := settleMounts(pid, mounts, a.staged); err != nil {
		return nil, err
	}
	return mounts, checkCwdInside(pid, mounts)
}

// checkCwdInside refuses a first process whose working directory is on a mount outside its mount
// namespace: it got there through a file that the delegate left open (CVE-2024-21626). The process
// waits for `start`, and its directory is already set.
func checkCwdInside(pid int, mounts []mountinfo.Mount) error {
	var stx unix.Statx_t
	cwd := fmt.Sprintf("/proc/%d/cwd", pid)
	if err := unix.Statx(unix.AT_FDCWD, cwd, 0, unix.STATX_MNT_ID, &stx); err != nil {
		return fmt.Errorf("the jail's working directory: %w", err)
	}
	id := strconv.FormatUint(stx.Mnt_id, 10)
	if slices.ContainsFunc(mounts, func(m mountinfo.Mount) bool { return m.ID == id }) {
		return nil
	}
	return refusal.New(refusal.Cwd, "the working directory leads out of the jail (CVE-2024-21626)")
}

// settleMounts works in the waiting jail's mount namespace. It caps each tmpfs that the delegate
// mounted without a size, and attaches the jail's synthetic files.
func settleMounts(pid int, mounts []mountinfo.Mount, st *rootfs.Staged) error {
	tighten := looseMounts(mounts)
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
func looseMounts(mounts []mountinfo.Mount) []looseMount {
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
