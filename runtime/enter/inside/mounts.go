package inside

import (
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/enter"
)

// A mount is a line of mountinfo. It is kept in the kernel's words: a jail has a
// hundred, and every start waits for this.
type mount struct {
	id, dev, root, at, kind string
	options                 string // of the mount, separated by commas
	super                   string // of its file system
}

func (m *mount) has(option string) bool { return listed(m.options, option) }

func (m *mount) readOnly() bool { return m.has("ro") || listed(m.super, "ro") }

// listed looks for a word in a list separated by commas.
func listed(list, word string) bool {
	for list != "" {
		var w string
		if w, list, _ = strings.Cut(list, ","); w == word {
			return true
		}
	}
	return false
}

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
	out := make([]mount, 0, 128)
	lines(text, func(l string) bool {
		var m mount
		head, tail, ok := strings.Cut(l, " - ")
		var parent string
		for _, field := range []*string{&m.id, &parent, &m.dev, &m.root, &m.at, &m.options} {
			*field, head, _ = strings.Cut(head, " ")
		}
		m.kind, tail, _ = strings.Cut(tail, " ")
		_, m.super, _ = strings.Cut(tail, " ") // after the source
		if ok && m.options != "" && m.super != "" {
			m.at = unoctal(m.at)
			out = append(out, m)
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
	top := make(map[string]*mount, len(ms))
	for i := range ms {
		top[ms[i].at] = &ms[i]
	}
	null := top["/dev/null"]
	if null != nil && !isNull(null.at) {
		null = nil
	}
	isNull := func(m *mount) bool {
		return null != nil && m.dev == null.dev && m.root == null.root || isNull(m.at)
	}
	for i := range ms {
		m := &ms[i]
		if inDir(m.at, "/dev") || holdsNothing(m) {
			continue
		}
		if (!m.has("nosuid") || !m.has("nodev")) && !isNull(m) {
			return "the mount at " + m.at + " lacks nosuid or nodev"
		}
	}
	if root := top["/"]; root == nil || root.kind != "overlay" {
		return "the root is not the throw-away layer"
	}
	for _, p := range o.Masked {
		// A mask is an empty file system, the null device or a file of the jail's.
		if m := top[p]; m != nil && (m.readOnly() && m.kind == "tmpfs" || isNull(m)) || missing(p) {
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

// isNull says whether path is the null device.
func isNull(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
}
