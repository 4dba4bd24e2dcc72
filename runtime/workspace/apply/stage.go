package apply

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/workspace/review"
)

// makeStaging makes and opens the staging directory.
func (w *worker) makeStaging() error {
	if err := unix.Mkdirat(w.dir, w.plan.Staging, 0o700); err != nil {
		return fmt.Errorf("making %s in the directory: %w (remedy: remove it, if it is not yours)", w.plan.Staging, err)
	}
	return w.openStaging()
}

// openStaging opens the staging directory; w.staging is -1 where there is none.
func (w *worker) openStaging() (err error) {
	w.staging, err = openat.Open(w.dir, w.plan.Staging, openat.OneMount, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		w.staging = -1
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", w.plan.Staging, err)
	}
	return nil
}

// stage prepares the new files in the staging directory, and records what they are in the plan.
// Items that a change of the view or a missing right prevents are returned.
func (w *worker) stage() (map[string]string, error) {
	failed := map[string]string{}
	var dirs []stagedItem
	for i, item := range w.plan.Items {
		if i%1000 == 0 {
			crash.Step("apply")
		}
		err := w.stageItem(i, item)
		switch {
		case err == nil:
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EIO), errors.Is(err, unix.EROFS):
			return nil, fmt.Errorf("writing %s: %w", item.Path, err)
		default:
			failed[item.Path] = err.Error()
			if err := w.removeAll(w.staging, item.At); err != nil {
				return nil, err
			}
		}
		if item.Type == review.Dir {
			dirs = append(dirs, item)
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		d := dirs[i]
		if err := w.setTimes(w.staging, d.At, d.State); err != nil {
			return nil, err
		}
		if path.Dir(d.At) == "." {
			continue // it is moved first: that takes the right to write in it
		}
		if err := w.chmod(w.staging, d.At, d.Mode); err != nil {
			return nil, err
		}
	}
	crash.Step("apply")
	for i := range w.plan.Ops {
		if err := w.identify(&w.plan.Ops[i]); err != nil {
			return nil, err
		}
	}
	return failed, nil
}

// identify records what was staged for an operation.
func (w *worker) identify(op *operation) error {
	if op.Do != add && op.Do != replace {
		return nil
	}
	st, there := state(w.staging, op.At)
	if !there {
		return nil // it failed, and the operation is dropped
	}
	op.New = st
	if !op.Dir {
		return nil
	}
	var err error
	op.Tree, err = review.Digest(w.staging, op.At, nil)
	return err
}

func (w *worker) stageItem(i int, item stagedItem) error {
	switch item.Type {
	case review.Dir:
		return unix.Mkdirat(w.staging, item.At, 0o700)
	case review.Link:
		if err := unix.Symlinkat(item.Target, w.staging, item.At); err != nil {
			return err
		}
		return w.setTimes(w.staging, item.At, item.State)
	}
	from, st, err := w.open(i, item)
	if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	defer unix.Close(from)
	dir, name, err := w.stagingDir.open(w.staging, item.At)
	if err != nil {
		return err
	}
	// The staging directory is the owner's alone, and the process has no umask.
	to, err := openat.CreateMode(dir, name, openat.OneMount, item.Mode)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	if err := w.copyFile(to, from, &st); err != nil {
		return err
	}
	if err := unix.Fstat(to, &st); err != nil {
		return err
	}
	if st.Mode&0o777 != item.Mode { // the directory has a default ACL (acl(5))
		if err := unix.Fchmod(to, item.Mode); err != nil {
			return err
		}
	}
	if err := unix.Fstat(from, &st); err != nil {
		return err
	}
	if review.StateOf(&st) != item.State {
		return errors.New("the view has changed meanwhile")
	}
	return w.setTimes(dir, name, item.State)
}

// A dirCache keeps the directory of the last path open: most files come by directories.
type dirCache struct {
	fd  int
	at  string
	has bool
}

// open opens the directory of a path below root, without following links.
func (d *dirCache) open(root int, at string) (fd int, name string, err error) {
	dir := path.Dir(at)
	if d.has && d.at == dir {
		return d.fd, path.Base(at), nil
	}
	fd, err = openat.Open(root, dir, openat.OneMount, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, "", fmt.Errorf("opening the directory of %s: %w", at, err)
	}
	d.close()
	*d = dirCache{fd, dir, true}
	return fd, path.Base(at), nil
}

func (d *dirCache) close() {
	if d.has {
		unix.Close(d.fd)
		d.has = false
	}
}

// open opens the content of an item.
func (w *worker) open(i int, item stagedItem) (fd int, st unix.Stat_t, err error) {
	if item.Shut {
		shut, ok := w.shut[i]
		if !ok {
			return -1, st, unix.EACCES
		}
		if fd, err = unix.Dup(shut); err != nil {
			return -1, st, err
		}
		return fd, st, unix.Fstat(fd, &st)
	}
	root, dirs := w.dir, &w.lowerDir
	if item.Source.Upper {
		root, dirs = w.upper, &w.upperDir
	}
	dir, name, err := dirs.open(root, item.Source.Path)
	if err != nil {
		return -1, st, err
	}
	return openFile(dir, name)
}

// openFile opens a regular file that a jail may exchange.
func openFile(dir int, name string) (fd int, st unix.Stat_t, err error) {
	fd, err = openat.Open(dir, name, openat.OneMount, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return -1, st, err
	}
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return -1, st, openat.ErrIrregular
	}
	return fd, st, nil
}

// small is the size of a file, in bytes, whose copying by read and write takes no longer than the
// calls that look for holes and share blocks.
const small = 128 << 10

// copyFile copies a file. Its holes stay holes.
func (w *worker) copyFile(to, from int, st *unix.Stat_t) error {
	size := st.Size
	if size <= small {
		return w.copyPlain(to, from, 0, size)
	}
	for at := int64(0); at < size; {
		data, err := unix.Seek(from, at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			break
		}
		if err != nil {
			return err
		}
		hole, err := unix.Seek(from, data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		hole = min(hole, size)
		if data >= hole {
			break
		}
		if err := w.copyRange(to, from, data, hole); err != nil {
			return err
		}
		at = hole
	}
	return unix.Ftruncate(to, size)
}

func (w *worker) copyRange(to, from int, start, end int64) error {
	in, out := start, start
	for in < end {
		n, err := unix.CopyFileRange(from, &in, to, &out, int(min(end-in, 1<<30)), 0)
		switch {
		case err == unix.EINTR:
		case err == unix.EXDEV || err == unix.EINVAL || err == unix.EOPNOTSUPP || err == unix.ENOSYS:
			return w.copyPlain(to, from, in, end)
		case err != nil:
			return err
		case n == 0:
			return nil // it has become shorter, which its state shows
		}
	}
	return nil
}

// copyPlain is copyRange between file systems that the kernel does not copy between.
func (w *worker) copyPlain(to, from int, at, end int64) error {
	if w.buf == nil {
		w.buf = make([]byte, small)
	}
	buf := w.buf
	for at < end {
		n, err := unix.Pread(from, buf[:min(end-at, int64(len(buf)))], at)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		for done := 0; done < n; {
			m, err := unix.Pwrite(to, buf[done:n], at+int64(done))
			if err != nil && err != unix.EINTR {
				return err
			}
			done += max(m, 0)
		}
		at += int64(n)
	}
	return nil
}

// setTimes sets a file's time to that of its source's last change, by which build tools decide.
func (w *worker) setTimes(dir int, at string, s review.State) error {
	t := unix.NsecToTimespec(s.Mtime)
	return unix.UtimesNanoAt(dir, at, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}

// state is what is at a name of an open directory.
func state(dir int, name string) (review.State, bool) {
	if dir < 0 {
		return review.State{}, false
	}
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return review.State{}, false
	}
	return review.StateOf(&st), true
}

// chmod changes the mode of a file or directory, never through a link.
func (w *worker) chmod(dir int, at string, mode uint32) error {
	fd, err := openat.Open(dir, at, openat.OneMount, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmodat(unix.AT_FDCWD, openat.Proc(fd), mode, 0)
}

// removeAll removes a tree in the staging directory.
func (w *worker) removeAll(dir int, at string) error {
	err := unix.Unlinkat(dir, at, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return &os.PathError{Op: "remove", Path: at, Err: err}
	}
	if err := w.chmod(dir, at, 0o700); err != nil {
		return &os.PathError{Op: "chmod", Path: at, Err: err}
	}
	fd, err := openat.Open(dir, at, openat.OneMount, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return &os.PathError{Op: "open", Path: at, Err: err}
	}
	f := os.NewFile(uintptr(fd), at)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := w.removeAll(fd, name); err != nil {
			return err
		}
	}
	if err := unix.Unlinkat(dir, at, unix.AT_REMOVEDIR); err != nil {
		return &os.PathError{Op: "remove", Path: at, Err: err}
	}
	return nil
}
