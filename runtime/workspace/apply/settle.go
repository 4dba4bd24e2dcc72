package apply

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/overlayfs"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/workspace/review"
)

// record records the ctimes that a finished plan has left, and empties the layer of what was
// applied.
func (v *View) record(res result) error {
	plan, err := v.readPlan()
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing was committed
	}
	if err != nil {
		return err
	}
	if v.Applied == nil {
		v.Applied = map[string]int64{}
	}
	dir := int(v.Directory.Fd())
	for i := range plan.Ops {
		op := &plan.Ops[i]
		if up := path.Dir(op.Path); i == 0 || up != path.Dir(plan.Ops[i-1].Path) {
			v.remember(dir, up, "")
		}
		if now, there := stateAt(dir, op.Path); there {
			old := now
			old.Ctime = op.Old.Ctime
			switch {
			case now.Ino == op.New.Ino && op.Dir:
				v.remember(dir, op.Path, "/")
			case now.Ino == op.New.Ino, old == op.Old, op.Do == chmod, op.OldTree != "" && now.Ino == op.Old.Ino:
				v.remember(dir, op.Path, "")
			}
		}
	}
	if res.Done {
		v.rebase(plan)
	}
	if err := v.Save(v); err != nil {
		return fmt.Errorf("recording what was applied: %w", err)
	}
	crash.Step("parent")
	if !res.Done || plan.Live || v.Live {
		return nil
	}
	return v.settle(plan)
}

// rebase forgets the bases that a plan has changed itself. Files that a jail still has in its layer
// are based on the applied ones.
func (v *View) rebase(plan *applyPlan) {
	done := map[string]bool{}
	for i := range plan.Ops {
		if op := &plan.Ops[i]; isDone(op, int(v.Directory.Fd())) {
			done[op.Path] = true
		}
	}
	maps.DeleteFunc(v.Bases, func(_ string, b review.Base) bool {
		for at := b.Path; at != "."; at = path.Dir(at) {
			if done[at] {
				return true
			}
		}
		return false
	})
	for i := range plan.Ops {
		if op := &plan.Ops[i]; plan.Live && done[op.Path] && op.Do != remove && v.Bases != nil {
			v.Bases[op.Path] = review.Base{Path: op.Path}
		}
	}
}

// remember records a file's ctime.
func (v *View) remember(dir int, at, suffix string) {
	if st, there := stateAt(dir, at); there {
		v.Applied[at+suffix] = st.Ctime
		v.Applied[at] = st.Ctime
	}
}

func stateAt(dir int, at string) (review.State, bool) {
	st, err := overlayfs.Stat(dir, at)
	return review.StateOf(&st), err == nil
}

// settle removes from the layer what the directory has now: the view shows the same, and the
// directory's later changes with it.
func (v *View) settle(plan *applyPlan) error {
	upper, dir := int(v.Upper.Fd()), int(v.Directory.Fd())
	var open []string // paths that are not as the plan left them
	for i := range plan.Ops {
		if op := &plan.Ops[i]; !isDone(op, dir) {
			open = append(open, op.Path)
		}
	}
	plain := map[string]bool{}
	for _, at := range plan.Units {
		// In one that is not merged itself, its removal would show.
		if isPlain(upper, path.Dir(at), plain) && !slices.ContainsFunc(open, func(p string) bool { return pathname.Within(p, at) }) {
			if err := removeBeneath(upper, at); err != nil {
				return err
			}
		}
	}
	for i := range plan.Ops {
		op := &plan.Ops[i]
		if !op.Settle || op.Do == chmod && op.Dir || !isDone(op, dir) || !isPlain(upper, path.Dir(op.Path), plain) {
			continue
		}
		if err := removeBeneath(upper, op.Path); err != nil {
			return err
		}
		if i%100 == 0 {
			crash.Step("parent")
		}
	}
	return nil
}

// isDone reports whether the directory has what an operation left.
func isDone(op *operation, dir int) bool {
	now, there := stateAt(dir, op.Path)
	switch op.Do {
	case remove:
		return !there
	case chmod:
		return there && now.Ino == op.Old.Ino && now.Mode&0o777 == op.Mode
	}
	return there && now.Ino == op.New.Ino
}

// removeBeneath removes a tree at a path, without following links.
func removeBeneath(root int, at string) error {
	parent, err := overlayfs.Beneath(root, path.Dir(at), unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path.Dir(at), Err: err}
	}
	defer unix.Close(parent)
	return new(worker).removeAll(parent, path.Base(at))
}

// isPlain reports whether a directory of the layer, and each on the way to it, is merged with the
// directory of the same path.
func isPlain(upper int, at string, known map[string]bool) bool {
	if at == "." {
		return true
	}
	if is, ok := known[at]; ok {
		return is
	}
	is := false
	if isPlain(upper, path.Dir(at), known) {
		if fd, err := overlayfs.Beneath(upper, at, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
			is = overlayfs.Attr(fd, "opaque") != "y" && overlayfs.Attr(fd, "redirect") == ""
			unix.Close(fd)
		}
	}
	known[at] = is
	return is
}

// Discard removes chosen changes from the view's layer, so that the view shows the directory's
// files there. paths are what they were chosen by.
func (v *View) Discard(r *review.Review, chosen []*review.Change, paths []string) error {
	if v.Live {
		return errors.New("a jail has the view (remedy: end the jail first)")
	}
	upper, plain := int(v.Upper.Fd()), map[string]bool{}
	gone := map[string]bool{}
	var remove []string
	var modes []*review.Change
	// Without a file of the layer there is none, or the directory's: but in a renamed directory.
	bare := func(c *review.Change) bool {
		for _, to := range r.Moved {
			if pathname.Within(c.Path, to) {
				return false
			}
		}
		return c.Kind == review.Added
	}
	within := func(at string) bool {
		return slices.ContainsFunc(paths, func(p string) bool { return p == "." || pathname.Within(at, p) })
	}
	for _, at := range r.Units {
		if within(at) && isPlain(upper, path.Dir(at), plain) {
			gone[at] = true
			remove = append(remove, at)
		}
	}
	for _, c := range chosen {
		if !within(c.Path) && !(c.From != "" && within(c.From)) && !(c.By != "" && within(c.By)) {
			continue // a directory that others need
		}
		up := path.Dir(c.Path)
		for up != "." && !gone[up] {
			up = path.Dir(up)
		}
		switch {
		case up != "." || gone[c.Path]:
			continue
		case !bare(c) && !isPlain(upper, path.Dir(c.Path), plain):
			return fmt.Errorf("%s lies in a directory that was renamed or made anew (remedy: discard that one as a whole)", printable.Line(c.Path, 0))
		case c.Kind == review.Mode && c.Type == review.Dir:
			modes = append(modes, c)
			continue
		}
		gone[c.Path] = true
		remove = append(remove, c.Path)
	}
	// No directory of the lower layer can be in an overlay twice.
	for from, to := range r.Moved {
		stays := !slices.ContainsFunc(remove, func(at string) bool { return pathname.Within(to, at) })
		if i := slices.IndexFunc(remove, func(at string) bool { return pathname.Within(from, at) }); i >= 0 && stays {
			return fmt.Errorf("%s: the view shows what the directory has there as %s (remedy: discard that one as a whole, too)",
				printable.Line(remove[i], 0), printable.Line(to, 0))
		}
	}
	for _, c := range modes {
		if err := new(worker).chmod(upper, c.Path, c.Old.Mode&0o777); err != nil {
			return &os.PathError{Op: "chmod", Path: c.Path, Err: err}
		}
	}
	for _, at := range remove {
		crash.Step("discard")
		if err := removeBeneath(upper, at); err != nil {
			return err
		}
		maps.DeleteFunc(v.Bases, func(p string, _ review.Base) bool { return pathname.Within(p, at) })
	}
	return v.Save(v)
}
