package inspect

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/rootfs/procfiles"
)

// Exposed is one thing that a jail can learn of its host.
type Exposed struct {
	Path    string `json:"path"`
	Reveals string `json:"reveals"`
	Why     string `json:"why,omitempty"` // why it stays, or what of it shows
}

// lookHost checks the files by which containers are known to learn of their hosts, and notes those
// that are still the host's. It does not compare contents, which change from one moment to the
// next, but their origin: the kernel's own files, unless a namespace of the jail's answers, or a
// file of the jail's.
func (s *seen) lookHost(p *proc, first *process, d *demands) error {
	if d.sandbox != "" {
		return nil // the guest kernel has files and system calls of its own
	}
	root, err := p.open("root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, e := range procfiles.Table {
		t := Exposed{Path: e.Path, Reveals: e.Reveals}
		open := false
		switch e.Becomes {
		case procfiles.Stays:
			open, t.Why = !e.AppArmor || !confined(first.label), e.Reads
		case procfiles.Own:
			open, t.Why = s.hostOwns(root, e)
		default:
			if open, err = kernels(root, e.Path); err != nil {
				return fmt.Errorf("%s: %w", e.Path, err)
			}
		}
		s.ways++
		if open {
			s.exposed = append(s.exposed, t)
		}
	}
	return nil
}

// confined reports whether an AppArmor label is in force.
func confined(label string) bool { return strings.HasSuffix(label, " (enforce)") }

// hostOwns reports whether the answer to an entry that is a namespace's, or the
// image's, is the host's own.
func (s *seen) hostOwns(root *os.File, e procfiles.Entry) (open bool, why string) {
	switch e.Of {
	case "image":
		ours, err1 := os.ReadFile(e.Path)
		theirs, err2 := readIn(root, e.Path)
		return err1 == nil && err2 == nil && theirs != "" && theirs == string(ours), "the same file"
	case "mnt":
		why := strings.Join(s.hostDirs(), ", ")
		return why != "", why
	}
	n, ok := s.namespaces[e.Of]
	if own, err := os.Hostname(); err == nil && e.Path == nameFile && s.hostname != "" && s.hostname == own {
		return true, "the engine set the host's"
	}
	return !ok || n.Jail == n.Host, "the host's " + e.Of + " namespace"
}

// nameFile is where the kernel shows a UTS namespace's name.
const nameFile = "/proc/sys/kernel/hostname"

// hostDirs are the directories of the host that the jail's mount table shows: of
// what is mounted from a file system, the place in it, and an overlay's layers.
func (s *seen) hostDirs() []string {
	var out []string
	for i := range s.mounts {
		m := &s.mounts[i]
		if s.classOf(m) == hostMount && path.Clean(m.Root) != "/" {
			out = append(out, m.Root+" at "+m.Point)
		}
		for _, key := range []string{"lowerdir", "upperdir", "workdir"} {
			if v := m.Value(key); strings.HasPrefix(v, "/") || strings.Contains(v, ":/") {
				out = append(out, key+" of "+m.Point)
			}
		}
	}
	return out
}

// kernels reports whether a path of the jail is a file of the kernel's with
// something in it, or a directory of them.
func kernels(root *os.File, name string) (bool, error) {
	fs, err := statfsAt(root, path.Clean(name))
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return false, nil
	case errors.Is(err, unix.ELOOP):
		return false, nil // a link: what it leads to has a path of its own
	case err != nil:
		return false, err
	}
	return int64(fs.Type) == unix.PROC_SUPER_MAGIC || int64(fs.Type) == unix.SYSFS_MAGIC, nil
}

// readIn reads a regular file of the jail; the image or the jail may have put
// anything there.
func readIn(root *os.File, name string) (string, error) {
	f, err := openIn(root, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", errors.New("not a file")
	}
	return readBounded(f, 1<<20)
}
