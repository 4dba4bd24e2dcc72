package apply

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/workspace/review"
)

// parent opens the directory of a path.
func (w *worker) parent(at string) (fd int, name string, err error) {
	return w.parentDir.open(w.dir, at)
}

// commit does all operations. Each can be done again: the staged inode shows whether it was done.
func (w *worker) commit() error {
	for i := range w.plan.Ops {
		op := &w.plan.Ops[i]
		crash.Step("apply")
		err := w.do(op)
		if err == nil {
			continue
		}
		w.failed[op.Path] = err.Error()
		if !w.plan.Each {
			return err
		}
	}
	return nil
}

func (w *worker) do(op *operation) error {
	if op.By != "" {
		for p := range w.failed {
			if pathname.Within(p, op.By) {
				return errors.New("not all of the renamed directory is applied")
			}
		}
	}
	if w.staging < 0 && op.Do != chmod && !isDone(op, w.dir) {
		return fmt.Errorf("its file is gone with %s", w.plan.Staging)
	}
	parent, name, err := w.parent(op.Path)
	if err != nil {
		return err
	}
	switch op.Do {
	case add:
		return w.add(op, parent, name)
	case replace:
		return w.replace(op, parent, name)
	case remove:
		return w.remove(op, parent, name)
	case chmod:
		now, there := state(parent, name)
		if there && now.Ino == op.Old.Ino && now.Mode&0o777 == op.Mode {
			return nil
		}
		if !there || now.Ino != op.Old.Ino || now.Mode != op.Old.Mode || !op.Dir && now != op.Old {
			return errConflict
		}
		return w.chmod(parent, name, op.Mode)
	}
	return fmt.Errorf("unknown operation %q", op.Do)
}

// isStaged reports whether the staged file of an operation is still in the staging directory.
func (w *worker) isStaged(op *operation) bool {
	st, there := state(w.staging, op.At)
	return there && st.Ino == op.New.Ino
}

// isReviewed reports whether the file that was moved out of the directory is the one that the
// review found. A rename changes the ctime alone.
func (w *worker) isReviewed(op *operation) bool {
	st, there := state(w.staging, op.At)
	if !there || st.Ino != op.Old.Ino {
		return false
	}
	if op.OldTree != "" {
		tree, err := review.Digest(w.staging, op.At, nil)
		return err == nil && tree == op.OldTree
	}
	return st.Size == op.Old.Size && st.Mtime == op.Old.Mtime && st.Mode&0o777 == op.Old.Mode&0o777
}

// isOld reports whether the directory has what the review found.
func isOld(op *operation, now review.State) bool {
	if op.OldTree != "" {
		return now.Ino == op.Old.Ino && now.Mode == op.Old.Mode // what is in it is compared afterwards
	}
	return now == op.Old
}

func (w *worker) add(op *operation, parent int, name string) error {
	if w.isStaged(op) {
		if err := w.rename(w.staging, op.At, parent, name, unix.RENAME_NOREPLACE); err != nil {
			return asConflict(err)
		}
		crash.Step("apply")
	}
	return w.finishDir(op, parent, name)
}

// finishDir sets a new directory's mode. To be moved, it has to be writable.
func (w *worker) finishDir(op *operation, parent int, name string) error {
	now, there := state(parent, name)
	if !op.Dir || !there || now.Ino != op.New.Ino || now.Mode&0o777 == op.Mode {
		return nil
	}
	return w.chmod(parent, name, op.Mode)
}

func (w *worker) replace(op *operation, parent int, name string) error {
	if w.isStaged(op) {
		if now, there := state(parent, name); !there || !isOld(op, now) {
			return errConflict
		}
		if err := w.rename(w.staging, op.At, parent, name, unix.RENAME_EXCHANGE); err != nil {
			return asConflict(err)
		}
		crash.Step("apply")
	}
	if now, there := state(parent, name); there && now.Ino == op.New.Ino && !w.isReviewed(op) {
		if err := w.rename(w.staging, op.At, parent, name, unix.RENAME_EXCHANGE); err != nil {
			return fmt.Errorf("putting back what another process made: %w", err)
		}
		return errConflict
	}
	return w.finishDir(op, parent, name)
}

func (w *worker) remove(op *operation, parent int, name string) error {
	if _, there := state(w.staging, op.At); !there {
		if now, there := state(parent, name); !there || !isOld(op, now) {
			return errConflict
		}
		err := w.rename(parent, name, w.staging, op.At, unix.RENAME_NOREPLACE)
		// Another owner's empty directory can be removed, and not be moved: its ".." would change.
		if (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) && unix.Unlinkat(parent, name, unix.AT_REMOVEDIR) == nil {
			return nil
		}
		if err != nil {
			return asConflict(err)
		}
		crash.Step("apply")
	}
	if !w.isReviewed(op) {
		if err := w.rename(w.staging, op.At, parent, name, unix.RENAME_NOREPLACE); err != nil {
			return fmt.Errorf("putting back what another process made: %w", err)
		}
		return errConflict
	}
	return nil
}

// asConflict is the error of a step that the directory's owner has prevented.
func asConflict(err error) error {
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) {
		return errConflict
	}
	return err
}

// rename moves a file. A directory's move changes its "..", which takes the right to write in it.
func (w *worker) rename(fromDir int, from string, toDir int, to string, flags uint) error {
	err := unix.Renameat2(fromDir, from, toDir, to, flags)
	if err != unix.EACCES {
		return err
	}
	shut := []struct {
		dir  int
		name string
	}{{fromDir, from}}
	if flags == unix.RENAME_EXCHANGE {
		shut = append(shut, struct {
			dir  int
			name string
		}{toDir, to})
	}
	for _, s := range shut {
		if st, there := state(s.dir, s.name); there && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o200 == 0 {
			if err := w.chmod(s.dir, s.name, st.Mode&0o777|0o700); err != nil {
				return err
			}
		}
	}
	return unix.Renameat2(fromDir, from, toDir, to, flags)
}

// undo takes back the operations that were done, the last first. A file that another process has
// changed since stays, and is reported.
func (w *worker) undo() {
	for i := len(w.plan.Ops) - 1; i >= 0; i-- {
		op := &w.plan.Ops[i]
		crash.Step("apply")
		if err := w.takeBack(op); err != nil {
			w.kept[op.Path] = err.Error()
		}
	}
}

func (w *worker) takeBack(op *operation) error {
	parent, name, err := w.parent(op.Path)
	if err != nil {
		_, there := state(w.staging, op.At)
		if op.Do == chmod || op.Do == remove && !there || op.Do != remove && w.isStaged(op) {
			return nil // it was not done
		}
		return fmt.Errorf("it cannot be taken back: %w", err)
	}
	now, there := state(parent, name)
	done := there && op.New.Ino != 0 && now.Ino == op.New.Ino && !w.isStaged(op)
	switch {
	case op.Do == chmod:
		if there && now.Ino == op.Old.Ino && now.Mode&0o777 == op.Mode && now.Mode != op.Old.Mode {
			return w.chmod(parent, name, op.Old.Mode&0o777)
		}
		return nil
	case op.Do == remove:
		if st, gone := state(w.staging, op.At); gone && st.Ino == op.Old.Ino {
			return w.putBack(op, parent, name, unix.RENAME_NOREPLACE)
		}
		if !there && op.Old.Mode&unix.S_IFMT == unix.S_IFDIR {
			return errors.New("it was empty and another owner's, and stays removed")
		}
		return nil
	case !done:
		return nil
	case !w.untouched(op, parent, name, now):
		return errors.New("it was changed after it was applied, and stays")
	case op.Do == add:
		return w.rename(parent, name, w.staging, op.At, unix.RENAME_NOREPLACE)
	}
	return w.putBack(op, parent, name, unix.RENAME_EXCHANGE)
}

// untouched reports whether what was applied is as it was staged.
func (w *worker) untouched(op *operation, parent int, name string, now review.State) bool {
	if op.Dir {
		tree, err := review.Digest(parent, name, nil)
		return err == nil && tree == op.Tree
	}
	return now.Size == op.New.Size && now.Mtime == op.New.Mtime
}

// putBack moves what was in the directory back to its place.
func (w *worker) putBack(op *operation, parent int, name string, flags uint) error {
	if err := w.rename(w.staging, op.At, parent, name, flags); err != nil {
		return fmt.Errorf("%w: it is kept as %s", err, path.Join(w.plan.Staging, op.At))
	}
	crash.Step("apply")
	if now, there := state(parent, name); there && now.Mode&unix.S_IFMT == unix.S_IFDIR && now.Mode&0o777 != op.Old.Mode&0o777 {
		return w.chmod(parent, name, op.Old.Mode&0o777)
	}
	return nil
}

// clean removes the staging directory, but for files that are neither new nor, after all was done,
// the replaced ones.
func (w *worker) clean(at string) error {
	if w.staging < 0 {
		return nil
	}
	names, err := readNames(w.staging)
	if err != nil {
		return err
	}
	known := map[string]*operation{}
	for i := range w.plan.Ops {
		known[w.plan.Ops[i].At] = &w.plan.Ops[i]
	}
	for i, name := range names {
		if i%1000 == 0 {
			crash.Step("apply")
		}
		op := known[name]
		if at != begunFile && op != nil && !w.isStaged(op) && (at == undoneFile || !w.isReviewed(op)) {
			w.kept[op.Path] = "another file was in its place: it is kept as " + path.Join(w.plan.Staging, name)
			continue
		}
		if err := w.removeAll(w.staging, name); err != nil {
			return err
		}
	}
	crash.Step("apply")
	name, err := w.findStaging()
	if err == nil && name != "" {
		err = unix.Unlinkat(w.dir, name, unix.AT_REMOVEDIR)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("removing %s: %w", w.plan.Staging, err)
	}
	return nil
}
