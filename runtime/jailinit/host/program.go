package host

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/programs"
)

// program opens the step for a jail: a mount of its copy, attached nowhere and
// gone with the last file of it.
func program(dir, label string) (*os.File, error) {
	copied, err := openCopy(dir, label, programMode)
	if err != nil {
		return nil, err
	}
	defer copied.Close()
	fd, err := unix.OpenTree(int(copied.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, fmt.Errorf("cloning the mount of %s: %w", copied.Name(), err)
	}
	f := os.NewFile(uintptr(fd), Name)
	// Distributions mount /run so that nothing there can be run.
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Attr_clr: unix.MOUNT_ATTR_NOEXEC,
		Propagation: unix.MS_PRIVATE,
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("setting the attributes of the mount of %s: %w", copied.Name(), err)
	}
	return f, nil
}

// programMode lets every user run the copy, and none read or write it.
const programMode = 0o111

// guestMode lets a sandbox read the copy, too: its own kernel runs the program.
const guestMode = 0o555

// openCopy opens the program's copy in dir, which is made when there is none of this version and
// label yet.
func openCopy(dir, label string, mode uint32) (*os.File, error) {
	src, err := programs.Open(Name)
	if err != nil {
		return nil, err
	}
	copied, err := copyOf(src, dir, label, mode)
	if err != nil {
		return nil, fmt.Errorf("copying %s into %s: %w", Name, dir, err)
	}
	return copied, nil
}

// copyOf opens the copy of src, or makes it. Its name changes with the file's.
func copyOf(src *os.File, dir, label string, mode uint32) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(src.Fd()), &st); err != nil {
		return nil, err
	}
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%d %d %d %d %s", st.Dev, st.Ino, st.Mtim.Nano(), st.Size, label)
	if mode != programMode {
		fmt.Fprintf(sum, " %o", mode)
	}
	path := filepath.Join(dir, fmt.Sprintf("%s%016x", prefix, sum.Sum64()))
	for range 2 {
		f, err := os.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err == nil {
			var c unix.Stat_t
			if err := unix.Fstat(int(f.Fd()), &c); err != nil {
				f.Close()
				return nil, err
			}
			if c.Uid != 0 || c.Mode != unix.S_IFREG|mode || c.Size != st.Size {
				f.Close()
				return nil, fmt.Errorf("%s is not the copy that was made (remedy: remove it)", path)
			}
			return f, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if err := makeCopy(path, label, io.NewSectionReader(src, 0, st.Size), mode); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s was removed while it was made", path)
}

// Copies are named by a prefix and a sum, and removed by the next version's when
// they are older than age.
const (
	prefix = "enter-"
	age    = 24 * time.Hour
)

// prune removes files by the beginning of their names, and by their age. A file that is in use
// stays for the processes that have opened it; a failure leaves a file that costs a megabyte.
func prune(dir, prefix string, age time.Duration) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), prefix) && time.Since(info.ModTime()) > age {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// makeCopy makes the copy whole or not at all. A second caller finds the copy made.
func makeCopy(path, label string, src io.Reader, mode uint32) error {
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, src); err != nil {
		return err
	}
	if label != "" {
		if err := unix.Fsetxattr(int(f.Fd()), "security.selinux", append([]byte(label), 0), 0); err != nil {
			return fmt.Errorf("labelling it %s: %w", label, err)
		}
	}
	if err := f.Chmod(os.FileMode(mode)); err != nil {
		return err
	}
	prune(dir, prefix, age)
	return link(f, path)
}

// link adds a name to an open file, unless the name is there already.
func link(f *os.File, path string) error {
	err := unix.Linkat(unix.AT_FDCWD, openat.Proc(int(f.Fd())), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "link", Path: path, Err: err}
	}
	return nil
}

// Runs reports whether a process is still the step, whose copies are in dir, and
// has not become its program yet.
func Runs(pid int, dir string) bool {
	// Its file has no name to look for: the step is run from a mount that is attached nowhere (see
	// program), and a newer version may have removed the copy. No jail's program looks like one: it
	// is on another file system, or it can be read.
	var runs, copies unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &runs) == nil && unix.Stat(dir, &copies) == nil &&
		runs.Dev == copies.Dev && runs.Uid == copies.Uid && runs.Mode == unix.S_IFREG|programMode
}
