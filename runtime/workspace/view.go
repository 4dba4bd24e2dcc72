package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/filetime"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/overlayfs"
	"agentjail.dev/runtime/kernel/trim"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/workspace/review"
)

// The directories of an image: overlayfs's upper and work directory.
const upperDir, workDir = "upper", "work"

// mountFlags are those of every mount of an image but a jail's.
const mountFlags = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// Make makes a view of a directory that is open, with the fields of r that describe the jail, the
// name and the bounds. It sets the others.
func (s Store) Make(r *Record, dir *os.File) (err error) {
	if err := CheckHost(); err != nil {
		return fmt.Errorf("a view: %w", err)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of views: %w", err)
	}
	if err := r.describe(dir); err != nil {
		return err
	}
	all, err := lockPath(s.Dir, unix.LOCK_EX, makersPatience)
	if err != nil {
		return err
	}
	defer all.Close()
	if err := s.nameFree(r.Name); err != nil {
		return err
	}
	lock, err := s.admit(r.Size, aView)
	if err != nil {
		return err
	}
	defer lock.Close()
	r.ID = newID()
	final := filepath.Join(s.Dir, r.ID)
	part := Store{Dir: filepath.Join(s.Dir, newPrefix+r.ID), Boot: s.Boot}
	if err := errors.Join(os.Mkdir(part.Dir, 0o700), os.Mkdir(filepath.Join(part.Dir, r.ID), 0o700)); err != nil {
		return err
	}
	defer os.RemoveAll(part.Dir)
	crash.Point("workspace.directory")
	if err := s.allocate(part.path(r.ID, imageFile), r.Size, r.Files); err != nil {
		return err
	}
	crash.Point("workspace.image")
	// Without a jail of its key, Sweep ends it.
	r.State, r.Boot = Open, s.Boot
	r.Since = filetime.Moment(openat.Proc(int(dir.Fd()))).UnixNano()
	if r.Booted, _, err = filetime.Booted(); err != nil {
		return err
	}
	if err := part.save(r); err != nil {
		return err
	}
	crash.Point("workspace.recorded")
	if err := os.Rename(filepath.Join(part.Dir, r.ID), final); err != nil {
		return fmt.Errorf("making view %s: %w", r.ID, err)
	}
	crash.Point("workspace.made")
	return nil
}

// describe sets the fields that describe the directory.
func (r *Record) describe(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	path, err := openat.Name(int(dir.Fd()))
	if err != nil {
		return err
	}
	r.Path, r.Dev, r.Ino, r.UID, r.GID, r.Mode = path, st.Dev, st.Ino, st.Uid, st.Gid, st.Mode&0o7777
	return nil
}

// Of reports whether a view is of an open directory.
func (r *Record) Of(dir *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(dir.Fd()), &st) == nil && st.Dev == r.Dev && st.Ino == r.Ino
}

// nameFree refuses a name that a view has, or that none can have.
func (s Store) nameFree(name string) error {
	if name == "" {
		return nil
	}
	if len(name) > 64 || strings.Trim(name, nameChars) != "" || strings.HasPrefix(name, "-") || strings.HasPrefix(name, ".") {
		return refusal.New(refusal.Workspace, "a name has up to 64 letters, digits and _.-").About("view %q", name)
	}
	all, err := s.List()
	for _, r := range all {
		if r.Name == name || r.ID == name {
			return refusal.New(refusal.Workspace, "there is one of that name, of %s", r.Path).About("view %s",
				name).WithRemedy("agentjail workspace discard %s, or another name", name)
		}
	}
	return err
}

const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// layout makes the upper directory of an image that no jail has had yet show as the view's
// directory: overlayfs makes a directory in `work` with its first mount. Of an earlier jail's it
// keeps no more than the files: the directory may have changed since.
func (r *Record) layout(tree *os.File) error {
	upper, err := openUpper(tree)
	if err != nil {
		return err
	}
	defer upper.Close()
	switch err := unix.Faccessat(int(tree.Fd()), workDir+"/work", unix.F_OK, unix.AT_SYMLINK_NOFOLLOW); err {
	case nil:
		return overlayfs.ForgetOrigins(int(upper.Fd()))
	case unix.ENOENT:
		return errors.Join(unix.Fchown(int(upper.Fd()), int(r.UID), int(r.GID)), unix.Fchmod(int(upper.Fd()), r.Mode))
	default:
		return err
	}
}

// Begin opens a view for a jail, and returns its image's file system, detached, for `upper` and
// `work` of an overlay, and a lock that the caller closes once the overlay is mounted.
func (s Store) Begin(r *Record, dir *os.File) (_, _ *os.File, err error) {
	if !r.Of(dir) {
		return nil, nil, refusal.New(refusal.Workspace, "it is of %s, and this is another directory", r.Path).About("view %s",
			r.ID).WithRemedy("another name")
	}
	lock, err := s.exclusive(r, false)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	had, err := s.read(r.ID)
	if err == nil {
		err = had.understood()
	}
	if err != nil {
		return nil, nil, err
	}
	if had.State == Incomplete {
		return nil, nil, refusal.New(refusal.Workspace, "the machine ended while a jail had it: what was written last may be missing").
			About("view %s", r.ID).WithRemedy("agentjail workspace diff %s, then apply or discard it", r.ID)
	}
	bound, err := s.Bounds.device(aView)
	if err != nil {
		return nil, nil, err
	}
	defer bound.Close()
	if err := s.reallocate(s.path(r.ID, imageFile), r.Size); err != nil {
		return nil, nil, err
	}
	tree, err := mountImage(s.path(r.ID, imageFile), unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			tree.Close()
		}
	}()
	// A mark is of a jail of this boot that was killed.
	if err = errors.Join(removeMark(tree), r.layout(tree)); err != nil {
		return nil, nil, err
	}
	r.State = Open
	if err = errors.Join(s.noteClock(r), s.save(r)); err != nil {
		return nil, nil, err
	}
	crash.Point("workspace.open")
	return tree, lock, nil
}

// mark is what a volatile overlay leaves in its work directory (overlayfs.rst, "Volatile mount").
const mark = workDir + "/work/incompat"

// removeMark removes what a volatile overlay leaves, which is not mounted any more.
func removeMark(tree *os.File) error {
	for _, p := range []struct {
		path string
		flag int
	}{{mark + "/volatile/dirty", 0}, {mark + "/volatile", unix.AT_REMOVEDIR}, {mark, unix.AT_REMOVEDIR}} {
		err := unix.Unlinkat(int(tree.Fd()), p.path, p.flag)
		if err == unix.ENOTDIR && p.flag == 0 || err == unix.EISDIR || err == unix.EPERM {
			err = unix.Unlinkat(int(tree.Fd()), p.path, unix.AT_REMOVEDIR)
		}
		if err != nil && err != unix.ENOENT {
			return fmt.Errorf("removing %s: %w", p.path, err)
		}
	}
	return nil
}

// OfJail returns the views that a jail has or had last.
func (s Store) OfJail(key string) ([]*Record, error) {
	all, err := s.List()
	return slices.DeleteFunc(all, func(r *Record) bool { return r.Key != key || key == "" }), err
}

// End ends the views of a jail whose processes have ended: all that it wrote is on the disk then,
// and takes up no more of it than that (Begin allocates all of the layer again). A
// view without a change and without a name is removed.
func (s Store) End(key string) error {
	all, err := s.OfJail(key)
	errs := []error{err}
	for _, r := range all {
		if r.State == Open {
			if err := s.end(r); err != nil {
				errs = append(errs, fmt.Errorf("ending view %s: %w", r.ID, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (s Store) end(r *Record) error {
	if r.understood() != nil {
		return nil // it stays open for the release that made it
	}
	if _, err := os.Lstat(s.path(r.ID, imageFile)); errors.Is(err, os.ErrNotExist) {
		return s.remove(r.ID) // which was cut off
	}
	tree, err := mountImage(s.path(r.ID, imageFile), mountFlags)
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := keep(tree); err != nil {
		return err
	}
	upper, err := openUpper(tree)
	if err != nil {
		return err
	}
	defer upper.Close()
	names, err := upper.Readdirnames(1)
	if len(names) == 0 && errors.Is(err, io.EOF) {
		return s.remove(r.ID)
	}
	if err := unix.Syncfs(int(upper.Fd())); err != nil {
		return fmt.Errorf("writing to the disk: %w", err)
	}
	crash.Point("workspace.synced")
	// Holes are where no files are. Where the loop device cannot make them, the image stays whole.
	_ = trim.All(upper)
	if err := errors.Join(removeMark(tree), s.noteBases(r, upper)); err != nil {
		return err
	}
	crash.Point("workspace.unmarked")
	r.State = Ended
	return errors.Join(s.noteClock(r), s.save(r))
}

// noteBases records what the layer's files are based on, as long as the directory is there.
func (s Store) noteBases(r *Record, upper *os.File) error {
	dir, err := openDirectory(r)
	if err != nil {
		return nil //nolint:nilerr // it is moved away, and no apply is possible until it is back
	}
	defer dir.Close()
	had, err := s.Bases(r)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	applied, err := s.Applied(r)
	if err != nil {
		return err
	}
	bases, err := review.Bases(context.Background(), upper, dir, had, len(applied) > 0)
	if err != nil {
		return err
	}
	return s.SaveBases(r, bases)
}

// openUpper opens the upper directory of an image.
func openUpper(tree *os.File) (*os.File, error) {
	return openat.File(int(tree.Fd()), upperDir, openat.OneMount, unix.O_RDONLY|unix.O_DIRECTORY)
}

// Sweep removes what crashes left of views that were being made, and ends those of jails that are
// gone. It keeps every view that has a change or a name.
func (s Store) Sweep(exists func(key string) bool) error {
	return errors.Join(s.sweepParts(), s.sweepOpen(exists))
}

func (s Store) sweepOpen(exists func(key string) bool) error {
	all, err := s.List()
	errs := []error{err}
	for _, r := range all {
		if r.State != Open || exists(r.Key) {
			continue
		}
		lock, err := s.exclusive(r, false)
		if err != nil {
			continue // it is read, or just begun
		}
		if now, err := s.read(r.ID); err == nil && now.State == Open && !exists(now.Key) {
			errs = append(errs, s.end(now))
		}
		lock.Close()
	}
	return errors.Join(errs...)
}

func (s Store) sweepParts() error {
	parts, err := filepath.Glob(filepath.Join(s.Dir, newPrefix+"*"))
	if err != nil || len(parts) == 0 {
		return err
	}
	all, err := lockPath(s.Dir, unix.LOCK_EX, patience) // the makers hold it
	if err != nil {
		return err
	}
	defer all.Close()
	var errs []error
	for _, p := range parts {
		errs = append(errs, os.RemoveAll(p))
	}
	return errors.Join(errs...)
}
