package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/idmap"
)

// A rootMaker makes the jail's root: the image's layers, read-only and idmapped, below the
// ephemeral layer.
type rootMaker struct {
	*Request
	layer, root string
	dev         uint64 // the root's
	notes       []string
	userns      map[string]*os.File // by id map text
	layers      layers
	lower       []*os.File // detached clones of the layers, or nil
	disk        *os.File   // the file system of a layer on disk, or nil
}

func newRootMaker(r *Request) rootMaker {
	return rootMaker{
		Request: r, layer: filepath.Join(r.Dir, layerDir), root: filepath.Join(r.Dir, rootDir),
		userns: map[string]*os.File{},
	}
}

func (m *rootMaker) close() {
	m.closeLower()
	m.disk.Close()
	for _, f := range m.userns {
		f.Close()
	}
}

// namespace returns a user namespace with these maps, for idmapped mounts.
func (m *rootMaker) namespace(uids, gids []specs.LinuxIDMapping) (*os.File, error) {
	u, g := idmap.Text(uids), idmap.Text(gids)
	if l := m.Spec.Linux; m.UserNS != nil && u == idmap.Text(l.UIDMappings) && g == idmap.Text(l.GIDMappings) {
		return m.UserNS, nil
	}
	if f, ok := m.userns[u+"/"+g]; ok {
		return f, nil
	}
	f, err := fork.UserNS(u, g)
	if err == nil {
		m.userns[u+"/"+g] = f
	}
	return f, err
}

// cloneLayers finds the engine's layers and clones their directories, idmapped. A
// file system that cannot be idmapped leaves no clone: then files are copied up.
func (m *rootMaker) cloneLayers() (err error) {
	if m.Plan.KeepHostOwners {
		m.layers = layers{parent: m.Spec.Root.Path, names: []string{"."}}
		return nil
	}
	if m.layers, err = findLayers(m.Rootfs, m.Spec.Root.Path, m.Mounts); err != nil {
		return err
	}
	if m.Plan.AlreadyMapped {
		// The engine may have mapped its layers by mounts that ended once the root
		// stood on them (containers/storage, containerd): only the root itself then
		// shows the files with the jail's ids. An overlay can lie on one other.
		m.layers = layers{parent: m.Spec.Root.Path, names: []string{"."}}
		return nil
	}
	for _, dir := range m.layers.trees() {
		tree, err := m.cloneMapped(dir)
		if err != nil {
			m.closeLower()
			return unlessUnsupported(err)
		}
		m.lower = append(m.lower, tree)
	}
	return nil
}

func (m *rootMaker) closeLower() {
	closeAll(m.lower)
	m.lower = nil
}

// cloneMapped clones a directory of layers, read-only, with its files' ids mapped to the jail's.
func (m *rootMaker) cloneMapped(dir string) (*os.File, error) {
	ns, err := m.namespace(m.Plan.IDs.ForImage())
	if err != nil {
		return nil, err
	}
	parent, err := OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	return cloneTree(int(parent.Fd()), "", false, &unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Propagation: unix.MS_PRIVATE, Userns_fd: uint64(ns.Fd()),
	})
}

// unlessUnsupported drops the errors of a kernel or file system that has no
// idmapped mounts (mount_setattr(2)).
func unlessUnsupported(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// makeRoot mounts the jail's root: the engine's layers, all of them read-only and idmapped, below
// the ephemeral layer. The engine's own upper layer is the topmost of them: files that the engine
// put there before the start (docker cp, mount points) are visible, and the layer is never
// written.
func (m *rootMaker) makeRoot() error {
	low := filepath.Join(m.layer, "low")
	for i := range m.layers.apart {
		if err := os.Mkdir(m.layers.place(low, i), 0o711); err != nil {
			return err
		}
	}
	if m.lower != nil {
		for i, f := range m.lower {
			if err := unix.MoveMount(int(f.Fd()), "", unix.AT_FDCWD, m.layers.place(low, i), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
				return fmt.Errorf("attaching the layers: %w", err)
			}
		}
		err := m.mountOverlay(low, "metacopy=off")
		if err == nil {
			return nil
		}
		// Overlay over idmapped layers needs Linux 5.19.
		if unlessUnsupported(err) != nil {
			return err
		}
		for i := range m.lower {
			if err := unix.Unmount(m.layers.place(low, i), unix.MNT_DETACH); err != nil {
				return fmt.Errorf("detaching the layers: %w", err)
			}
		}
	}
	for i, dir := range m.layers.trees() {
		if err := unix.Mount(dir, m.layers.place(low, i), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting the layers: %w", err)
		}
	}
	if m.Plan.AlreadyMapped || m.Plan.KeepHostOwners {
		return m.mountOverlay(low, "metacopy=off")
	}
	m.notes = append(m.notes, fmt.Sprintf("the image's %s file system cannot be idmapped on this kernel: its files' owners were copied into the layer, which takes time and space by the number of files", FSName(m.Rootfs)))
	return m.copyUp(low)
}

// Upper is the place of a jail's writable layer in its mount table: relative to the directory of
// the layers, or of links to them, which are both in the layer's own directory.
const Upper = "../upper"

// mountOverlay mounts the jail's root over lower directories below dir. Short relative names keep
// the options within the page that mount(2) reads. They also keep the layers' places out of the
// jail's mount table, which shows the options. This thread's working directory is its own since
// it has its own mount namespace.
func (m *rootMaker) mountOverlay(dir, extra string) error {
	names := m.layers.names
	upper := filepath.Join(m.layer, "upper")
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, names[0]), &st); err != nil {
		return fmt.Errorf("layer %s: %w", names[0], err)
	}
	// The root directory itself: its owner shows already mapped.
	if err := os.Lchown(upper, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	// Podman's images have a root directory without write permission, which elsewhere does not
	// hinder root: there it has CAP_DAC_OVERRIDE. The layer is the jail'm.
	if err := os.Chmod(upper, os.FileMode(st.Mode&0o777|0o200)); err != nil {
		return err
	}
	if err := unix.Chdir(dir); err != nil {
		return fmt.Errorf("entering the layers: %w", err)
	}
	defer func() { _ = unix.Chdir("/") }()
	lower, err := m.shorten(dir, names)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(filepath.Join(m.layer, linksDir)) }() // each is a file of the layer's
	if m.Rootless {
		// Overlayfs's attributes on files otherwise need CAP_SYS_ADMIN of the machine (Linux
		// 5.11). A tmpfs supports these attributes since Linux 6.6.
		extra += ",userxattr"
		if !Notable(upper) {
			m.notes = append(m.notes, "a directory of the image that was removed cannot be made again: before Linux 6.6, overlayfs cannot note on a tmpfs for a user that its content is gone")
		}
	}
	if m.Plan.Root.OnDisk() {
		extra += ",volatile" // no file of it is read after the machine's end: fsync(2) need not wait
	}
	opts := "index=off," + extra + ",lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + Upper + ",workdir=../work"
	if err := m.mount("overlay", m.root, ringfault.MountFlags(unix.MS_NOSUID|unix.MS_NODEV), opts); err != nil {
		return err
	}
	if err := unix.Stat(m.root, &st); err != nil {
		return err
	}
	m.dev = st.Dev
	return nil
}

// Notable reports whether a directory's file system supports the attributes by which overlayfs
// marks, for a user, removed names of lower layers (overlayfs.rst, userxattr). The test attribute
// is removed.
func Notable(dir string) bool {
	const name = "user.agentjail.try"
	if unix.Lsetxattr(dir, name, []byte{1}, 0) != nil {
		return false
	}
	return unix.Lremovexattr(dir, name) == nil
}

// mount mounts a file system for the jail, with the engine's SELinux label on its files.
func (r *Request) mount(kind, at string, flags uintptr, options string) error {
	label, err := contextOption(r.Spec)
	if err != nil {
		return err
	}
	if options = label + options; len(options) >= os.Getpagesize() {
		return fmt.Errorf("the image has more layers than a mount can name: its options have %d bytes", len(options))
	}
	if err := unix.Mount(mountSource, at, kind, flags, options); err != nil {
		return fmt.Errorf("mounting %s with %s: %w", kind, options, err)
	}
	return nil
}

// contextOption returns the mount option that sets the engine's SELinux label on every file of
// the jail's root (selinux(8), mount(8)). The layers carry labels that the image's files share
// among containers, and the ephemeral layer the label of the process that mounted it.
func contextOption(spec *specs.Spec) (string, error) {
	if spec.Linux == nil || spec.Linux.MountLabel == "" {
		return "", nil
	}
	label := spec.Linux.MountLabel
	if strings.Trim(label, labelChars) != "" {
		return "", fmt.Errorf("linux.mountLabel %q is not an SELinux label", label)
	}
	// A category pair has a comma in it.
	return `context="` + label + `",`, nil
}

// labelChars are the characters of SELinux labels: any other could end the quotes and begin
// another mount option.
const labelChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:,-"

// linksDir is the directory of links to the layers, below the layer's own.
const linksDir = "links"

// shorten replaces the layers' names by short links, and changes to the directory of the links. A
// jail's mount table shows the names that an overlay was mounted by, and an engine's names reveal
// which images are the same, and whose they are. They may also exceed the page that mount(2)
// reads. A root without an engine's layers is the directory itself.
func (m *rootMaker) shorten(dir string, names []string) ([]string, error) {
	if len(names) == 1 && names[0] == "." {
		return names, nil
	}
	links := filepath.Join(m.layer, linksDir)
	if err := os.RemoveAll(links); err != nil {
		return nil, err
	}
	if err := os.Mkdir(links, 0o700); err != nil {
		return nil, err
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Itoa(i)
		if err := os.Symlink(filepath.Join(dir, n), filepath.Join(links, out[i])); err != nil {
			return nil, err
		}
	}
	if err := unix.Chdir(links); err != nil {
		return nil, fmt.Errorf("entering the layers: %w", err)
	}
	return out, nil
}

// copyUp maps owners on kernels before 5.19 and on file systems that cannot be idmapped.
// Overlayfs copies only a file's metadata when its owner changes (metacopy, Linux 4.19), so that
// chown can map every file to the jail's ids.
func (m *rootMaker) copyUp(low string) error {
	if err := m.mountOverlay(low, "metacopy=on,redirect_dir=on"); err != nil {
		return err
	}
	root, err := OpenDir(m.root)
	if err != nil {
		return err
	}
	defer root.Close()
	err = m.chownTree(int(root.Fd()))
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("the image has more files than the layer's %d (remedy: raise root.inodes, or keep the image on ext4, xfs or btrfs): %w",
			m.Plan.Root.Inodes, err)
	}
	return err
}

// chownTree changes the owners of a directory and all below to the jail's ids, without following
// links.
func (m *rootMaker) chownTree(dir int) error {
	if err := m.chownAt(dir, ""); err != nil {
		return err
	}
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	names, err := f.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range names {
		if !e.IsDir() {
			if err := m.chownAt(fd, e.Name()); err != nil {
				return fmt.Errorf("%s: %w", e.Name(), err)
			}
			continue
		}
		sub, err := unix.Openat(fd, e.Name(), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
		err = m.chownTree(sub)
		unix.Close(sub)
		if err != nil {
			return fmt.Errorf("%s/%w", e.Name(), err)
		}
	}
	return nil
}

func (m *rootMaker) chownAt(dir int, name string) error {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags = unix.AT_EMPTY_PATH
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, flags); err != nil {
		return err
	}
	u, ok1 := m.Plan.IDs.HostUID(st.Uid)
	g, ok2 := m.Plan.IDs.HostGID(st.Gid)
	if !ok1 || !ok2 {
		return nil // the jail shows the overflow user as its owner
	}
	return unix.Fchownat(dir, name, int(u), int(g), flags)
}
