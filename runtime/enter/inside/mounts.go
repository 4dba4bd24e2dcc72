package inside

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/enter"
)

// A mount is a line of mountinfo.
type mount struct {
	id, root         string
	at, kind, source string
	options          []string // of the mount
	super            []string // of its file system
}

func (m *mount) has(option string) bool { return slices.Contains(m.options, option) }

func (m *mount) readOnly() bool { return m.has("ro") || slices.Contains(m.super, "ro") }

// mountTable is the jail's mounts, read once; what is mounted at a place last
// comes last.
var mountTable []mount

func table() ([]mount, error) {
	if mountTable != nil {
		return mountTable, nil
	}
	text, err := file("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	mountTable = parseMounts(text)
	return mountTable, nil
}

func parseMounts(text string) []mount {
	var out []mount
	lines(text, func(l string) bool {
		head, tail, ok := strings.Cut(l, " - ")
		h, t := strings.Split(head, " "), strings.Split(tail, " ")
		if ok && len(h) >= 6 && len(t) == 3 {
			out = append(out, mount{
				id: h[0], root: h[3], at: unoctal(h[4]), options: strings.Split(h[5], ","),
				kind: t[0], source: unoctal(t[1]), super: strings.Split(t[2], ","),
			})
		}
		return true
	})
	return out
}

// mounts: set-id bits and device files mean nothing in the jail, and what
// steers the kernel or tells of the host is covered.
func mounts(o *enter.Orders) string {
	ms, err := table()
	if err != nil {
		return err.Error()
	}
	if len(ms) == 0 {
		return "no mounts are listed"
	}
	top := map[string]*mount{}
	for i := range ms {
		m := &ms[i]
		top[m.at] = m
		if inDir(m.at, "/dev") || holdsNothing(m) {
			continue
		}
		if (!m.has("nosuid") || !m.has("nodev")) && !m.isNull() {
			return "the mount at " + m.at + " lacks nosuid or nodev"
		}
	}
	if root := top["/"]; root == nil || root.kind != "overlay" {
		return "the root is not the throw-away layer"
	}
	for _, p := range o.Masked {
		// A mask is an empty file system, the null device or a file of the jail's.
		if m := top[p]; m != nil && (m.readOnly() && m.kind == "tmpfs" || m.isNull()) || missing(p) {
			continue
		}
		if !covered(top, p, func(m *mount) bool { return m.readOnly() && m.kind == "tmpfs" }) {
			return p + " is not masked"
		}
	}
	for _, p := range o.ReadOnly {
		if missing(p) || covered(top, p, (*mount).readOnly) {
			continue
		}
		return p + " is not read-only"
	}
	return ""
}

// holdsNothing says whether a mount can hold neither programs nor devices: file
// systems for which the kernel itself rules them out (SB_I_NOEXEC and SB_I_NODEV),
// the host's devices, and the empty ones that delegates mask with.
func holdsNothing(m *mount) bool {
	return m.kind == "proc" || m.kind == "sysfs" || m.kind == "devtmpfs" || m.kind == "tmpfs" && m.readOnly()
}

// covered says whether the mount that path is in passes the test.
func covered(top map[string]*mount, path string, test func(*mount) bool) bool {
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

// isNull says whether the null device is mounted: the host's own node, or what the
// path shows to be one.
func (m *mount) isNull() bool {
	if m.kind == "devtmpfs" && m.root == "/null" {
		return true
	}
	var st unix.Stat_t
	return unix.Lstat(m.at, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
}
