package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/rootfs/procfiles"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/state"
)

// syntheticDir is the tmpfs in the layer's directory that the jail's synthetic files are in. It
// has its own size, so that the jail's files do not compete with it, and on
// SELinux hosts the jail's own label.
const syntheticDir = "views"

// syntheticOptions bound it: a machine with thousands of processors has a cpuinfo of
// some megabytes, and a directory for each in /sys.
const syntheticOptions = "mode=0755,size=8388608,nr_inodes=16384"

// A Synthetic is a file of the jail's that is to be attached over one of the
// kernel's once the jail has its mounts: delegates let only a few places below
// /proc be mounted over.
type Synthetic struct {
	Path string
	Tree *os.File // detached
}

// A syntheticMaker writes the jail's synthetic files to a file system of their own.
type syntheticMaker struct {
	*Request
	at  string   // where the file system is mounted
	dir *os.File // that directory
	// trusts and inside are what addTrust and addInside have mounted.
	trusts []trust
	inside bool
	// copies is the file system of the copies that the jail, or its start, writes to; nil for none.
	// current are those of the start, and places are the destinations of mounts.
	copies  *os.File
	current []state.Copy
	places  []string
	// pending are the files to attach one by one; bind mounts of the spec show the others.
	pending []pending
}

// addSynthetic adds a mount of a synthetic file or directory to the spec, read-only. Its source is
// set once that was made.
func (s *stager) addSynthetic(at string) {
	s.Spec.Mounts = append(s.Spec.Mounts, specs.Mount{
		Destination: at, Type: "bind", Source: at, Options: []string{"bind", "rprivate", "nosuid", "nodev", "noexec", "ro"},
	})
}

// makeSynthetic writes the jail's synthetic files, and adds mounts for them to the spec where a
// spec can mount them.
func (s *stager) makeSynthetic() (err error) {
	v := &syntheticMaker{
		Request: s.Request, at: filepath.Join(s.layer, syntheticDir), trusts: s.trusts, inside: s.inside, places: s.places,
	}
	// The thread has its own mask since it has its own mount namespace.
	defer unix.Umask(unix.Umask(0))
	if err := unix.Mkdir(v.at, 0o755); err != nil {
		return &os.PathError{Op: "mkdir", Path: v.at, Err: err}
	}
	if err := v.mount("tmpfs", v.at, unix.MS_NOSUID|unix.MS_NOEXEC, syntheticOptions); err != nil {
		return err
	}
	if v.dir, err = OpenDir(v.at); err != nil {
		return err
	}
	defer v.dir.Close()
	defer func() { _ = v.copies.Close() }() // an error where there is none
	var st unix.Stat_t
	if err := unix.Fstat(int(v.dir.Fd()), &st); err != nil {
		return err
	}
	s.syntheticDev = st.Dev
	steps := []func() error{v.writeSys, v.copyFiles, v.copyTrust, v.copyInside, v.writeSingle, v.maskDirs, v.makeDevices}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	s.copies = v.current
	if v.copies != nil {
		if err := unix.Fstat(int(v.copies.Fd()), &st); err != nil {
			return err
		}
		s.copiesDev = st.Dev
	}
	s.synthetic, err = v.clone()
	return err
}

// clone makes the file system read-only, and returns detached clones of the synthetic files, also
// with an error.
func (v *syntheticMaker) clone() (synthetic []Synthetic, err error) {
	attr := unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC,
	}
	if err := unix.MountSetattr(int(v.dir.Fd()), "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return nil, fmt.Errorf("making it read-only: %w", err)
	}
	for _, t := range v.pending {
		tree, err := cloneTree(int(v.dir.Fd()), t.name, false, nil)
		if err != nil {
			return synthetic, fmt.Errorf("%s: %w", t.path, err)
		}
		synthetic = append(synthetic, Synthetic{Path: t.path, Tree: tree})
	}
	return synthetic, nil
}

// pending is a synthetic file to attach: its name in their directory, and the path that it covers.
type pending struct{ name, path string }

// write makes a file. It does without package os, which queries the kernel twice as
// much: dozens of files are made for each jail.
func write(dir *os.File, name, text string, mode uint32) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return &os.PathError{Op: "create", Path: name, Err: err}
	}
	defer unix.Close(fd)
	for b := []byte(text); len(b) > 0; {
		n, err := unix.Write(fd, b)
		if err != nil {
			return &os.PathError{Op: "write", Path: name, Err: err}
		}
		b = b[n:]
	}
	return nil
}

func mkdir(dir *os.File, name string, mode uint32) error {
	if err := unix.Mkdirat(int(dir.Fd()), name, mode); err != nil {
		return &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return nil
}

// writeSingle writes the synthetic files that go over single files: not where the bundle
// masks the file, nor where it mounts another one there (lxcfs(1)).
func (v *syntheticMaker) writeSingle() error {
	for _, f := range v.Single {
		if v.Spec.Linux != nil && slices.Contains(v.Spec.Linux.MaskedPaths, f.Path) ||
			slices.ContainsFunc(v.Spec.Mounts, func(m specs.Mount) bool { return filepath.Clean(m.Destination) == f.Path }) {
			continue
		}
		name := strings.ReplaceAll(strings.TrimPrefix(f.Path, "/"), "/", ".")
		if err := write(v.dir, name, f.Text, 0o444); err != nil {
			return err
		}
		v.pending = append(v.pending, pending{name, f.Path})
	}
	return nil
}

// maskDirs removes the directories of /proc among the masked paths from the spec, and has them
// covered by an empty directory of agentjail's. Delegates mount a tmpfs over each, which takes
// time. Its size is half of the host's memory, which every process can read (statfs(2)). The
// host's /proc has the same directories as the jail's.
func (v *syntheticMaker) maskDirs() error {
	if v.Spec.Linux == nil {
		return nil
	}
	const empty = "empty"
	if err := mkdir(v.dir, empty, 0o555); err != nil {
		return err
	}
	v.Spec.Linux.MaskedPaths = slices.DeleteFunc(v.Spec.Linux.MaskedPaths, func(path string) bool {
		var st unix.Stat_t
		if !slices.Contains(procfiles.Directories, path) || unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return false
		}
		v.pending = append(v.pending, pending{empty, path})
		return true
	})
	return nil
}

// writeSys writes the jail's /sys, and has the spec mount it in place of the
// tmpfs that hardening has put there.
func (v *syntheticMaker) writeSys() error {
	i := slices.IndexFunc(v.Spec.Mounts, func(m specs.Mount) bool {
		return filepath.Clean(m.Destination) == "/sys" && m.Type == "tmpfs"
	})
	if i < 0 {
		return nil
	}
	const sys = "sys"
	if err := mkdir(v.dir, sys, 0o755); err != nil {
		return err
	}
	for _, d := range v.Sys.Dirs {
		if err := mkdir(v.dir, sys+"/"+d, 0o755); err != nil {
			return err
		}
	}
	for _, f := range v.Sys.Files {
		if err := write(v.dir, sys+"/"+f.Path, f.Text, 0o444); err != nil {
			return err
		}
	}
	for _, l := range v.Sys.Links {
		if err := unix.Symlinkat(l.Text, int(v.dir.Fd()), sys+"/"+l.Path); err != nil {
			return &os.PathError{Op: "symlink", Path: l.Path, Err: err}
		}
	}
	m := &v.Spec.Mounts[i]
	m.Type, m.Source = "bind", filepath.Join(v.at, sys)
	m.Options = []string{"bind", "ro", "nosuid", "noexec", "nodev", "rprivate"}
	return nil
}

// makeDevices mounts nodes of the jail's own over those in /dev, in this thread's mount
// namespace, from which the delegate takes them. The host's nodes are on a devtmpfs; its size,
// half of the host's memory, would show in the jail's mount table with every mount of a node.
// SELinux hosts keep the host's nodes, which have labels of their own.
func (v *syntheticMaker) makeDevices() error {
	if v.Rootless || v.Spec.Linux != nil && v.Spec.Linux.MountLabel != "" { // a user cannot make nodes (mknod(2))
		return nil
	}
	for _, d := range plan.StandardDevices() {
		over := plan.OwnNode(uint32(d.Major), uint32(d.Minor))
		var st unix.Stat_t
		if over == "" || unix.Lstat(over, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR ||
			st.Rdev != unix.Mkdev(uint32(d.Major), uint32(d.Minor)) {
			continue // the delegate reports the error
		}
		name := "dev." + filepath.Base(over)
		if err := unix.Mknodat(int(v.dir.Fd()), name, unix.S_IFCHR|0o666, int(st.Rdev)); err != nil {
			return fmt.Errorf("%s: %w", over, err)
		}
		if err := unix.Mount(filepath.Join(v.at, name), over, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", over, err)
		}
	}
	return nil
}

// AttachSynthetic mounts the synthetic files over the files at their paths, in the mount namespace
// and below the root of the calling thread, which must be a jail's. A path that this kernel does
// not have needs none.
func (s *Staged) AttachSynthetic() error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	for _, v := range s.Synthetic {
		if err := attachSynthetic(root, v, s.SyntheticDev); err != nil {
			return fmt.Errorf("synthetic file %s: %w", v.Path, err)
		}
	}
	return nil
}

func attachSynthetic(root int, v Synthetic, dev uint64) error {
	at, err := openCovered(root, v.Path, dev)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.MoveMount(int(v.Tree.Fd()), "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// openCovered opens a file of the jail's that a synthetic file goes over. It must be the kernel's,
// or on the synthetic files' own file system: an image's file there stays as it is.
func openCovered(root int, path string, dev uint64) (int, error) {
	at, err := openat.Open(root, path, openat.InRootNoLinks, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	var fs unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Fstatfs(at, &fs), unix.Fstat(at, &st)); err != nil {
		unix.Close(at)
		return -1, err
	}
	if int64(fs.Type) != unix.PROC_SUPER_MAGIC && st.Dev != dev {
		unix.Close(at)
		return -1, errors.New("it is not the kernel's file that is there")
	}
	return at, nil
}

// RewriteSynthetic writes new text into synthetic files that are attached in a jail. inJail
// runs a function in the jail's mount namespace; the calling thread is in one
// with the host's /proc. The jail's own mount of each synthetic file stays read-only: a
// private clone is written through. A path where no synthetic file is attached is left
// alone: synthetic files are on the file system dev.
func RewriteSynthetic(dev uint64, files []procfiles.File, inJail func(func() error) error) error {
	trees := make([]*os.File, len(files))
	defer closeAll(trees)
	err := inJail(func() (err error) {
		for i, f := range files {
			trees[i], err = cloneTree(unix.AT_FDCWD, f.Path, false, nil)
			if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("synthetic file %s: %w", f.Path, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, f := range files {
		if trees[i] == nil {
			continue
		}
		if err := rewrite(dev, trees[i], f.Text); err != nil {
			return fmt.Errorf("synthetic file %s: %w", f.Path, err)
		}
	}
	return nil
}

func rewrite(dev uint64, tree *os.File, text string) error {
	fd := int(tree.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Dev != dev {
		return nil // the kernel's, or the bundle's
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("a writable clone: %w", err)
	}
	w, err := openat.Reopen(fd, unix.O_WRONLY|unix.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = w.WriteString(text)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}
