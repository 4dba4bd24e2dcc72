package apply

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/workspace/review"
)

// prepare makes the staging directory for a new plan, else opens that of the journal's. It runs as
// root: a jail may have the directory mounted with the rights of the owner that the worker becomes.
// So the staging directory belongs to root, and a group that the worker alone has can search it. A
// process in a directory that an apply moves there comes no further (path_resolution(7)).
func (w *worker) prepare() error {
	if journalState(w.journal) != "" {
		return w.openStaging()
	}
	if err := w.note(begunFile); err != nil {
		return err
	}
	w.fresh = true
	if err := unix.Mkdirat(w.dir, w.plan.Staging, 0o700); err != nil { // what has its name is not of this plan
		return fmt.Errorf("making %s in the directory: %w (remedy: remove it, if it is not yours)", w.plan.Staging,
			errors.Join(err, unix.Unlinkat(w.journal, begunFile, 0)))
	}
	crash.Step("apply")
	if err := w.shutStaging(); err != nil {
		return fmt.Errorf("shutting %s: %w", w.plan.Staging,
			errors.Join(err, unix.Unlinkat(w.dir, w.plan.Staging, unix.AT_REMOVEDIR), unix.Unlinkat(w.journal, begunFile, 0)))
	}
	return nil
}

// The staging directory's group is by chance one of groupCount ids from firstGroup on. systemd's
// list has them as unused (UIDS-GIDS.md), and no jail is made with one that is not known before.
const firstGroup, groupCount = 0x70000000, 0x8000000

// shutStaging opens the new staging directory, and lets none but the worker in.
func (w *worker) shutStaging() error {
	if err := w.openStaging(); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(w.staging, &st); err != nil {
		return err
	}
	if names, err := readNames(w.staging); err != nil || len(names) > 0 || st.Uid != 0 {
		return errors.Join(err, errors.New("another process has exchanged it"))
	}
	// As with the options grpid or bsdgroups (ext4(5), xfs(5)).
	w.regroup = st.Gid != 0 && st.Mode&unix.S_ISGID == 0
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	w.group = firstGroup + binary.LittleEndian.Uint32(random[:])%groupCount
	w.plan.StagingIno = st.Ino
	// The directory's default ACL may name users (acl(5)).
	if err := unix.Fremovexattr(w.staging, "system.posix_acl_access"); err != nil && err != unix.ENODATA && err != unix.EOPNOTSUPP {
		return fmt.Errorf("removing its ACL: %w", err)
	}
	return errors.Join(unix.Fchown(w.staging, 0, int(w.group)), unix.Fchmod(w.staging, 0o770))
}

// openStaging opens the staging directory; w.staging is -1 where there is none.
func (w *worker) openStaging() error {
	name, err := w.findStaging()
	if err != nil || name == "" {
		return err
	}
	if w.staging, err = openat.Open(w.dir, name, openat.OneMount, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return fmt.Errorf("opening %s: %w", name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(w.staging, &st); err != nil {
		return err
	}
	switch w.plan.Staging = name; {
	case st.Uid != 0 || w.fresh: // that of an earlier version of agentjail is its owner's
	case st.Gid >= firstGroup:
		w.group = st.Gid
	default: // it was just made
		unix.Close(w.staging)
		w.staging = -1
		return unix.Unlinkat(w.dir, name, unix.AT_REMOVEDIR)
	}
	return nil
}

// findStaging returns the name of the staging directory, which its owner's processes can rename;
// "" for none.
func (w *worker) findStaging() (string, error) {
	st, there := state(w.dir, w.plan.Staging)
	if there && (w.plan.StagingIno == 0 || st.Ino == w.plan.StagingIno) {
		return w.plan.Staging, nil
	}
	if w.plan.StagingIno == 0 {
		return "", nil
	}
	names, err := readNames(w.dir)
	for _, name := range names {
		if st, there := state(w.dir, name); there && st.Ino == w.plan.StagingIno && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return name, nil
		}
	}
	return "", err
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

func (w *worker) stageItem(i int, item stagedItem) (err error) {
	switch item.Type {
	case review.Dir:
		return errors.Join(unix.Mkdirat(w.staging, item.At, 0o700), w.own(w.staging, item.At))
	case review.Link:
		if err := unix.Symlinkat(item.Target, w.staging, item.At); err != nil {
			return err
		}
		return errors.Join(w.own(w.staging, item.At), w.setTimes(w.staging, item.At, item.State))
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
	// No other process comes into the staging directory, and this one has no umask.
	to, err := openat.CreateMode(dir, name, openat.OneMount, item.Mode)
	if err != nil {
		return err
	}
	staged := os.NewFile(uintptr(to), item.Path)
	defer staged.Close()
	if err := errors.Join(w.copyFile(to, from, &st), w.own(dir, name)); err != nil {
		return err
	}
	// By a mapping, a jail writes without a new time of change (mmap(2)).
	if item.Sum != "" {
		if sum, err := w.summer.Sum(context.Background(), staged, st.Size); err != nil || sum != item.Sum {
			return errors.Join(err, errChanged)
		}
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
		return errChanged
	}
	return w.setTimes(dir, name, item.State)
}

// errChanged is the error of an item that the jail has changed.
var errChanged = errors.New("the view has changed meanwhile")

// own gives a staged file the group that a new file in the directory has.
func (w *worker) own(dir int, name string) error {
	if !w.regroup {
		return nil
	}
	return unix.Fchownat(dir, name, -1, int(w.plan.GID), unix.AT_SYMLINK_NOFOLLOW)
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
	if unix.Unlinkat(dir, at, unix.AT_REMOVEDIR) == nil { // also another owner's
		return nil
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
