package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/policy"
)

// mapText is the id map of the pool's first block, in the form of uid_map.
func mapText(p policy.Policy) string { return idmap.Text(p.Userns.Block(0).UIDs) }

// mountAPI tries the calls by which mounts are worked on by open file instead
// of by name: openat2 (Linux 5.6), open_tree, move_mount, fspick and fsconfig
// (5.2), mount_setattr (5.12).
func mountAPI(*env) answer {
	err := inMounts(func(dir string) error {
		fd, err := openat.Open(unix.AT_FDCWD, dir, openat.Real, unix.O_PATH)
		if err != nil {
			return fmt.Errorf("openat2: %w", err)
		}
		unix.Close(fd)
		tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("open_tree: %w", err)
		}
		defer unix.Close(tree)
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}); err != nil {
			return fmt.Errorf("mount_setattr: %w", err)
		}
		at := filepath.Join(dir, "at")
		if err := os.Mkdir(at, 0o700); err != nil {
			return err
		}
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("move_mount: %w", err)
		}
		fs, err := unix.Fspick(unix.AT_FDCWD, dir, unix.FSPICK_CLOEXEC)
		if err != nil {
			return fmt.Errorf("fspick: %w", err)
		}
		defer unix.Close(fs)
		if err := unix.FsconfigSetString(fs, "size", "524288"); err != nil {
			return fmt.Errorf("fsconfig: %w", err)
		}
		return nil
	})
	return tried(err, "boot Linux 5.12 or later", "openat2, open_tree, mount_setattr, move_mount, fspick work")
}

// cappedTmpfs fills a tmpfs up to its number of files: the cap must bite.
func cappedTmpfs(*env) answer {
	err := inMounts(func(dir string) error {
		at := filepath.Join(dir, "small")
		if err := os.Mkdir(at, 0o700); err != nil {
			return err
		}
		if err := unix.Mount("agentjail-check", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=4096,nr_inodes=3"); err != nil {
			return err
		}
		big, err := os.Create(filepath.Join(at, "big"))
		if err != nil {
			return err
		}
		defer big.Close()
		if _, err := big.Write(make([]byte, 3*os.Getpagesize())); !errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("a tmpfs took more than its size (%v)", err)
		}
		var last error
		for i := range 4 {
			if last = os.WriteFile(filepath.Join(at, fmt.Sprint(i)), nil, 0o600); last != nil {
				break
			}
		}
		if !errors.Is(last, unix.ENOSPC) {
			return fmt.Errorf("a tmpfs took more files than its number (%v)", last)
		}
		return nil
	})
	return tried(err, "boot a kernel with CONFIG_TMPFS", "size and number of files hold")
}

// plainOverlay mounts an overlay as staging does.
func plainOverlay(e *env) answer {
	opts := "metacopy=off"
	if e.user {
		opts += ",userxattr"
	}
	notable := true
	err := inMounts(func(dir string) error {
		notable = !e.user || rootfs.Notable(dir)
		return overlay(dir, filepath.Join(dir, "low"), opts)
	})
	if err != nil {
		return fail("load overlay (`modprobe overlay`)", "overlay: %v", err)
	}
	if !notable {
		return warn("boot Linux 6.6 or later", "overlay with its upper layer on tmpfs, but a directory of the image that was removed cannot be made again")
	}
	return ok("overlay with its upper layer on tmpfs")
}

// overlay mounts one over lower, with everything else below dir, and writes a
// file through it.
func overlay(dir, lower, opts string) error {
	for _, d := range []string{"low", "upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	data := "index=off," + opts + ",lowerdir=" + lower + ",upperdir=" + filepath.Join(dir, "upper") + ",workdir=" +
		filepath.Join(dir, "work")
	root := filepath.Join(dir, "root")
	if err := unix.Mount("agentjail-check", root, "overlay", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return err
	}
	f := filepath.Join(root, ".agentjail-check")
	err := os.WriteFile(f, nil, 0o600) // lands in upper, on our tmpfs
	if err == nil {
		err = os.Remove(f)
	}
	return errors.Join(err, unix.Unmount(root, unix.MNT_DETACH))
}

// storages are the directories in which engines keep layers. Docker's can be
// configured; see dockerRoot.
var storages = []string{"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers/storage"}

// idmappedOverlay mounts overlays over the engines' storage directories, idmapped
// and read-only. Linux 5.19 can, where the directory's file system can be
// idmapped. Without engines it takes the root file system.
func idmappedOverlay(e *env) answer {
	dirs := present(append(storages, e.dockerRoot())...)
	if len(dirs) == 0 {
		dirs = []string{"/"}
	}
	var good, bad []string
	err := eachIdmapped(e, dirs, func(scratch, path, fs string, err error) error {
		if err == nil {
			err = overlay(scratch, filepath.Join(scratch, "mapped"), "metacopy=off")
		}
		if err == nil {
			good = append(good, fmt.Sprintf("%s (%s)", path, fs))
			return nil
		}
		bad = append(bad, fmt.Sprintf("%s (%s): %v", path, fs, err))
		// Staging falls back to an overlay that copies metadata only.
		low := filepath.Join(scratch, "low")
		if err = unix.Mount(path, low, "", unix.MS_BIND, ""); err == nil {
			err = errors.Join(overlay(scratch, low, "metacopy=on,redirect_dir=on"), unix.Unmount(low, unix.MNT_DETACH))
		}
		if err != nil {
			return fmt.Errorf("%s; and file owners cannot be copied into the layer either: %w", bad[len(bad)-1], err)
		}
		return nil
	})
	if err != nil {
		return fail("keep images on ext4, xfs or btrfs, and boot Linux 5.19 or later", "%v", err)
	}
	if len(bad) > 0 {
		return fail("keep images on ext4, xfs or btrfs, and boot Linux 5.19 or later",
			"%s: file owners are copied into the layer instead, which is slower", strings.Join(bad, "; "))
	}
	return ok("%s", strings.Join(good, ", "))
}

// idmappedMounts maps owners on the file systems that workspaces lie on.
func idmappedMounts(e *env) answer {
	dirs := present("/", "/home", "/srv", "/tmp")
	var good, bad []string
	seen := map[string]bool{}
	err := eachIdmapped(e, dirs, func(_, path, fs string, err error) error {
		switch {
		case err != nil:
			bad = append(bad, fmt.Sprintf("%s (%s): %v", path, fs, err))
		case !seen[fs]:
			seen[fs] = true
			good = append(good, fs)
		}
		return nil
	})
	if err != nil {
		return fail("boot Linux 5.12 or later", "%v", err)
	}
	if len(bad) > 0 {
		return fail("mount workspaces from ext4, xfs, btrfs or (Linux 6.3) tmpfs", "cannot be mapped, so not mounted into jails writable: %s",
			strings.Join(bad, "; "))
	}
	return ok("directories on %s can belong to the jail's user", strings.Join(good, ", "))
}

// eachIdmapped mounts a read-only idmapped clone of each directory at
// SCRATCH/mapped and hands it to f, with the error if that did not work.
// Nothing is written to the directory.
func eachIdmapped(e *env, dirs []string, f func(scratch, path, fs string, err error) error) error {
	ns, err := fork.UserNS(mapText(e.policy), mapText(e.policy))
	if err != nil {
		return err
	}
	defer ns.Close()
	return inMounts(func(scratch string) error {
		at := filepath.Join(scratch, "mapped")
		for _, d := range []string{at, filepath.Join(scratch, "low")} {
			if err := os.Mkdir(d, 0o700); err != nil {
				return err
			}
		}
		for _, d := range dirs {
			dir, err := rootfs.OpenDir(d)
			if err != nil {
				continue // gone meanwhile
			}
			fs := rootfs.FSName(dir)
			err = mountIdmapped(dir, ns, at)
			dir.Close()
			ferr := f(scratch, d, fs, err)
			if err == nil {
				ferr = errors.Join(ferr, unix.Unmount(at, unix.MNT_DETACH))
			}
			if ferr != nil {
				return ferr
			}
		}
		return nil
	})
}

func mountIdmapped(dir, ns *os.File, at string) error {
	tree, err := unix.OpenTree(int(dir.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("cloning the mount: %w", err)
	}
	defer unix.Close(tree)
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Userns_fd: uint64(ns.Fd()),
	})
	if errors.Is(err, unix.EINVAL) {
		return errors.New("this file system cannot be idmapped on this kernel")
	}
	if err != nil {
		return fmt.Errorf("mapping its ids: %w", err)
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// present returns the directories that exist, once each.
func present(dirs ...string) []string {
	var out []string
	seen := map[[2]uint64]bool{}
	for _, d := range dirs {
		var st unix.Stat_t
		if d == "" || unix.Lstat(d, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if id := [2]uint64{st.Dev, st.Ino}; !seen[id] {
			seen[id] = true
			out = append(out, d)
		}
	}
	return out
}

// dockerRoot is data-root of Docker's configuration, or "".
func (e *env) dockerRoot() string {
	c, _, err := e.dockerSettings()
	if err != nil || !filepath.IsAbs(c.Root) {
		return ""
	}
	return filepath.Clean(c.Root)
}
