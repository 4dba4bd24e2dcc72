package guest

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/mountinfo"
)

// mountTable has the jail's mounts, which are read once; the last mount at a place comes last.
var mountTable []mountinfo.Mount

// table returns the mounts. A process without any is an error.
func table() ([]mountinfo.Mount, error) {
	if mountTable != nil {
		return mountTable, nil
	}
	text, err := file("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	if mountTable, err = mountinfo.Parse(text); err == nil && len(mountTable) == 0 {
		err = refusal("no mounts are listed")
	}
	return mountTable, err
}

// mounts: set-id bits and device files mean nothing in the jail, and every file that steers the
// kernel or exposes the host is covered.
func mounts(o *jailinit.Orders) string {
	ms, err := table()
	if err != nil {
		return err.Error()
	}
	top := make(map[string]*mountinfo.Mount, len(ms))
	for i := range ms {
		top[ms[i].Point] = &ms[i]
	}
	null := top["/dev/null"]
	if null != nil && !isNull(null.Point) {
		null = nil
	}
	ofNull := func(m *mountinfo.Mount) bool {
		return null != nil && m.Dev == null.Dev && m.Root == null.Root || isNull(m.Point)
	}
	for i := range ms {
		m := &ms[i]
		if inDir(m.Point, "/dev") || holdsNothing(m) {
			continue
		}
		if (!m.Has("nosuid") || !m.Has("nodev")) && !ofNull(m) && !isOwnNode(m.Point) {
			return "the mount at " + m.Point + " lacks nosuid or nodev"
		}
	}
	if root := top["/"]; root == nil || root.FS != "overlay" {
		return "the root is not the ephemeral layer"
	}
	for _, p := range o.Masked {
		// A mask is an empty file system, the null device or a file of the jail's.
		if m := top[p]; m != nil && (m.ReadOnly() && m.FS == "tmpfs" || ofNull(m)) || missing(p) {
			continue
		}
		if !covered(top, p, func(m *mountinfo.Mount) bool { return m.ReadOnly() && m.FS == "tmpfs" }) {
			return p + " is not masked"
		}
	}
	for _, p := range o.ReadOnly {
		if missing(p) || covered(top, p, (*mountinfo.Mount).ReadOnly) {
			continue
		}
		return p + " is not read-only"
	}
	return ""
}

// holdsNothing reports whether a mount can hold neither programs nor devices: file
// systems for which the kernel itself rules them out (SB_I_NOEXEC and SB_I_NODEV),
// the host's devices, and the empty ones that delegates mask with.
func holdsNothing(m *mountinfo.Mount) bool {
	return m.FS == "proc" || m.FS == "sysfs" || m.FS == "devtmpfs" || m.FS == "tmpfs" && m.ReadOnly()
}

// covered reports whether the mount that path is in passes the test.
func covered(top map[string]*mountinfo.Mount, path string, test func(*mountinfo.Mount) bool) bool {
	for at := path; ; {
		if m := top[at]; m != nil {
			return test(m)
		}
		if at == "/" {
			return false
		}
		if i := strings.LastIndexByte(at, '/'); i > 0 {
			at = at[:i]
		} else {
			at = "/"
		}
	}
}

func inDir(path, dir string) bool {
	return strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}

func missing(path string) bool {
	err := unix.Access(path, unix.F_OK)
	return err == unix.ENOENT || err == unix.ENOTDIR
}

// isNull reports whether path is the null device.
func isNull(path string) bool { return deviceAt(path) == unix.Mkdev(1, 3) }

// isOwnNode reports whether path is a device of every jail without state of the host's, which a
// bundle may mount anywhere: null, zero, full, random, urandom or tty.
func isOwnNode(path string) bool {
	switch d := deviceAt(path); unix.Major(d) {
	case 1:
		return slices.Contains([]uint32{3, 5, 7, 8, 9}, unix.Minor(d))
	case 5:
		return unix.Minor(d) == 0
	}
	return false
}

// deviceAt returns the number of the character device at a path, 0 where there is none.
func deviceAt(path string) uint64 {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return 0
	}
	return st.Rdev
}
