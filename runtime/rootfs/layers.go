package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/spec/bindsource"
)

// layers are the directories that make up the engine's root.
type layers struct {
	// parent is a directory that holds all layers; names are relative to it, the
	// topmost layer first. One idmapped clone of the parent then serves all.
	parent string
	names  []string
	// apart are the layers' paths where they are on several mounts, of which a clone has one:
	// Podman keeps the upper layer of --rootfs DIR:O in /run, and images in additional stores. Each
	// layer then has a clone of its own, and a number for its name.
	apart []string
}

// trees are the directories that are cloned.
func (l layers) trees() []string {
	if l.apart != nil {
		return l.apart
	}
	return []string{l.parent}
}

// place is the place of a clone below the directory that names are relative to.
func (l layers) place(low string, i int) string {
	if l.apart != nil {
		return filepath.Join(low, l.names[i])
	}
	return low
}

// separate separates layers that are not all on their parent's mount.
func (l *layers) separate() error {
	var paths []string
	var apart bool
	parent, err := mountID(l.parent)
	if err != nil {
		return err
	}
	for _, name := range l.names {
		path, err := filepath.EvalSymlinks(filepath.Join(l.parent, name))
		if err != nil {
			return fmt.Errorf("the engine's layer %q: %w", name, err)
		}
		id, err := mountID(path)
		if err != nil {
			return err
		}
		paths, apart = append(paths, path), apart || id != parent
	}
	if apart {
		l.apart = paths
		for i := range l.names {
			l.names[i] = strconv.Itoa(i)
		}
	}
	return nil
}

// mountID returns the id of the mount that a path is on (Linux 5.8).
func mountID(path string) (uint64, error) {
	var stx unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &stx); err != nil {
		return 0, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return stx.Mnt_id, nil
}

// findLayers finds the parts of the engine's root: an overlay's layers, or the directory itself.
func findLayers(root *os.File, path string, mounts *bindsource.Mounts) (layers, error) {
	plain := layers{parent: path, names: []string{"."}}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &fs); err != nil {
		return plain, fmt.Errorf("%s: %w", path, err)
	}
	if int64(fs.Type) != unix.OVERLAYFS_SUPER_MAGIC {
		return plain, nil
	}
	mounted, err := mountedAt(int(root.Fd()), "", unix.AT_EMPTY_PATH)
	if err != nil {
		return plain, fmt.Errorf("%s: %w", path, err)
	}
	if !mounted {
		return plain, nil // a directory within an overlay: cannot be idmapped, is copied up
	}
	fsSource, opts, err := mounts.Super(int(root.Fd()))
	if err != nil {
		return plain, err
	}
	if fsSource == mountSource {
		return plain, fmt.Errorf("another jail's root is mounted at %s (remedy: delete that container first, or `agentjail gc` if it is gone)", path)
	}
	dirs, ok := absolute(overlayDirs(opts), path)
	if len(dirs) == 0 || !ok {
		return plain, nil
	}
	found, err := commonParent(dirs)
	if err != nil {
		return plain, err
	}
	for _, name := range found.names {
		if _, err := os.Stat(filepath.Join(found.parent, name)); errors.Is(err, os.ErrNotExist) {
			return plain, nil // a layer that was mapped by a mount that has ended
		}
	}
	return found, found.separate()
}

// EngineLayers lists the layers of an engine's root, which is mounted at path, the topmost first;
// none of a root that is no overlay, or one of another form.
func EngineLayers(root *os.File, path string, mounts *bindsource.Mounts) ([]string, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &fs); err != nil || int64(fs.Type) != unix.OVERLAYFS_SUPER_MAGIC {
		return nil, err
	}
	_, opts, err := mounts.Super(int(root.Fd()))
	if err != nil {
		return nil, err
	}
	dirs, _ := absolute(overlayDirs(opts), path)
	return dirs, nil
}

// CoveredLayers lists the layers of an engine's root over which a jail's root is mounted, by its
// path, the mount's source and its file system's options; none of ours.
func CoveredLayers(path, source, options string) []string {
	if source == mountSource {
		return nil
	}
	dirs, _ := absolute(overlayDirs(options), path)
	return dirs
}

// IsMount reports whether a directory is the root of a mount.
func IsMount(f *os.File) bool {
	mounted, err := mountedAt(int(f.Fd()), "", unix.AT_EMPTY_PATH)
	return err == nil && mounted
}

// mountedAt reports whether a path is the root of a mount (Linux 5.8 and later report this).
func mountedAt(dir int, path string, flags int) (bool, error) {
	var stx unix.Statx_t
	if err := unix.Statx(dir, path, flags, 0, &stx); err != nil {
		return false, err
	}
	return stx.Attributes&stx.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// overlayDirs returns an overlay's layers, the topmost first: its upper layer,
// then the lower ones (Documentation/filesystems/overlayfs.rst). Since Linux
// 6.5 lower layers may be listed one by one as lowerdir+. An overlay with layers
// that hold nothing but data for others (composefs) is not taken apart: nil.
func overlayDirs(opts string) []string {
	var upper string
	var lowers []string
	for _, o := range splitEscaped(opts, ',') {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "upperdir":
			upper = unescape(v)
		case "lowerdir":
			for _, l := range splitEscaped(v, ':') {
				if l == "" {
					return nil // layers behind "::" hold data only
				}
				lowers = append(lowers, unescape(l))
			}
		case "lowerdir+":
			lowers = append(lowers, unescape(v))
		case "datadir+":
			return nil
		}
	}
	if upper != "" {
		lowers = append([]string{upper}, lowers...)
	}
	return lowers
}

// splitEscaped splits at sep unless a backslash stands before it.
func splitEscaped(s string, sep byte) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case sep:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// absolute completes the names of layers, the topmost first. Engines that mount with more options
// than a page change into a directory of their storage and give relative names: Docker and Podman
// all of them, and the root is mounted below that directory; containerd those of the lower layers,
// which are siblings of the upper one. ok is false where no directory has all of them.
func absolute(dirs []string, root string) (_ []string, ok bool) {
	relative := func(d string) bool { return !filepath.IsAbs(d) }
	if !slices.ContainsFunc(dirs, relative) {
		return dirs, true
	}
	for _, from := range []string{dirs[0], root} {
		for at := filepath.Dir(from); filepath.IsAbs(at) && at != "/"; at = filepath.Dir(at) {
			if out := below(at, dirs); out != nil {
				return out, true
			}
		}
	}
	return nil, false
}

// below completes relative names by a directory; nil where one of them is not a directory there.
func below(dir string, names []string) []string {
	out := slices.Clone(names)
	for i, name := range names {
		if filepath.IsAbs(name) {
			continue
		}
		out[i] = dir + "/" + name // not cleaned: names such as l/ID/../diff1 go through a link
		if fi, err := os.Stat(out[i]); !filepath.IsLocal(name) || err != nil || !fi.IsDir() {
			return nil
		}
	}
	return out
}

// commonParent finds the deepest directory that holds all layers.
func commonParent(dirs []string) (layers, error) {
	for i, d := range dirs {
		if slices.Contains(strings.Split(d, "/"), "..") {
			real, err := filepath.EvalSymlinks(d)
			if err != nil {
				return layers{}, fmt.Errorf("the engine's layer %q: %w", d, err)
			}
			d = real
		}
		dirs[i] = filepath.Clean(d)
	}
	base := filepath.Dir(dirs[0])
	for _, d := range dirs {
		for base != "/" && !pathname.Below(d, base) {
			base = filepath.Dir(base)
		}
	}
	l := layers{parent: base}
	for _, d := range dirs {
		rel, err := filepath.Rel(base, d)
		if err != nil {
			return l, err
		}
		l.names = append(l.names, rel)
	}
	return l, nil
}
