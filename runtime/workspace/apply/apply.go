// Package apply takes the changes of a view over into its directory. Per call all of them are
// done, or none: a journal outlives the process and the machine, and the next call finishes what
// it has.
//
// The work is done by a process that has become the directory's owner (Work): what a jail or
// another process makes of the directory meanwhile, the owner's rights bound what it leads to.
package apply

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/overlayfs"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/version/form"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/runtime/workspace/review"
)

// A View is what an apply works on.
type View struct {
	ID       string
	UID, GID uint32 // of the directory
	// Upper is the view's layer, which is emptied of what was applied unless Live: a jail has it.
	Upper, Directory *os.File
	Live             bool
	// Journal is the journal's path, and Locks that of the file of Lock, where only root enters.
	Journal, Locks string
	// Applied are the ctimes that applies left, and Bases those of the layer (review.Options). Save
	// keeps them.
	Applied map[string]int64
	Bases   map[string]review.Base
	Save    func(*View) error

	lock  *os.File
	close func()
	began func(*workspace.Record) (time.Time, time.Duration, error)
}

// A Result describes an apply.
type Result struct {
	Applied   []string  `json:"applied"`
	Left      []Problem `json:"left,omitempty"`      // by the options, or for ever
	Conflicts []Problem `json:"conflicts,omitempty"` // with what the directory's owner did meanwhile
	Kept      []Problem `json:"kept,omitempty"`      // what could not be taken back
	Warnings  []string  `json:"warnings,omitempty"`
}

// ToJSON returns the result with its paths as pathname.ToJSON returns them: they need not be UTF-8.
func (out Result) ToJSON() Result {
	out.Applied = slices.Clone(out.Applied)
	for i, at := range out.Applied {
		out.Applied[i] = pathname.ToJSON(at)
	}
	for _, list := range []*[]Problem{&out.Left, &out.Conflicts, &out.Kept} {
		*list = slices.Clone(*list)
		for i, p := range *list {
			(*list)[i].Path = pathname.ToJSON(p.Path)
		}
	}
	return out
}

// ErrConflicts is wrapped by the error of an apply that conflicts prevented: the directory is as
// it was.
var ErrConflicts = errors.New("nothing was done: there are conflicts (remedy: --each leaves them out, or name other paths)")

// errBusy means that another apply works in the directory.
var errBusy = errors.New("another apply works in the directory (remedy: try again when it has ended)")

// Lock locks the view's directory against another apply in it, until Close. The lock is a place in
// a file of agentjail's own: one of the directory itself is any process's that can open that. Two
// directories have one place by a rare chance.
func (v *View) Lock() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(v.Directory.Fd()), &st); err != nil {
		return err
	}
	lock, err := os.OpenFile(v.Locks, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("locking the directory: %w", err)
	}
	at := int64((st.Dev<<40 ^ st.Ino) & (1<<62 - 1))
	err = unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1})
	if err != nil {
		lock.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return errBusy
		}
		return fmt.Errorf("locking the directory: %w", err)
	}
	v.lock = lock
	return nil
}

func planned(plan *applyPlan, left, conflicts []Problem) *Result {
	out := &Result{Applied: []string{}, Left: left, Conflicts: conflicts}
	for _, op := range plan.Ops {
		out.Applied = append(out.Applied, op.Path)
	}
	slices.Sort(out.Applied)
	return out
}

// Run applies chosen changes. The caller has called Lock before the review, and recoverJournal.
func (v *View) Run(ctx context.Context, r *review.Review, chosen []*review.Change, o Options) (*Result, error) {
	plan, left, conflicts := newPlan(r, chosen, v.Live, o)
	out := planned(plan, left, conflicts)
	if len(conflicts) > 0 && !o.Each {
		out.Applied = []string{}
		return out, ErrConflicts
	}
	if len(plan.Ops) == 0 {
		return out, nil
	}
	if err := v.room(plan); err != nil {
		out.Applied = []string{}
		return out, err
	}
	plan.Staging, plan.UID, plan.GID = review.StagingPrefix+v.ID, v.UID, v.GID
	if err := v.makeJournal(); err != nil {
		return out, err
	}
	crash.Step("parent")
	res, err := v.work(ctx, plan)
	out.take(res)
	if !res.Done {
		out.Applied = []string{}
	}
	out.Applied = slices.DeleteFunc(out.Applied, func(p string) bool { return res.Failed[p] != "" })
	if err != nil {
		return out, err
	}
	if len(res.Failed) > 0 && !res.Done {
		return out, ErrConflicts
	}
	return out, nil
}

// take adds what the worker reported.
func (out *Result) take(res result) {
	for _, p := range slices.Sorted(maps.Keys(res.Failed)) {
		out.Conflicts = append(out.Conflicts, Problem{p, res.Failed[p]})
	}
	for _, p := range slices.Sorted(maps.Keys(res.Kept)) {
		out.Kept = append(out.Kept, Problem{p, res.Kept[p]})
	}
	out.Warnings = append(out.Warnings, res.Warnings...)
}

// room refuses a plan that the directory's disk has no room for.
func (v *View) room(plan *applyPlan) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(v.Directory.Fd()), &fs); err != nil {
		return fmt.Errorf("looking at the disk: %w", err)
	}
	shares := fs.Type == unix.BTRFS_SUPER_MAGIC || fs.Type == unix.XFS_SUPER_MAGIC // blocks, within it
	sum := func(size func(stagedItem) int64) (bytes int64) {
		for _, item := range plan.Items {
			if item.Type == review.File && (item.Source.Upper || !shares) {
				bytes += (size(item) + fs.Bsize - 1) / fs.Bsize * fs.Bsize
			}
		}
		return bytes
	}
	free := int64(fs.Bavail) * fs.Bsize
	need := sum(func(item stagedItem) int64 { return min(item.State.Size, 1<<50) })
	if need > free { // holes take up nothing
		need = sum(func(item stagedItem) int64 {
			root := v.Directory
			if item.Source.Upper {
				root = v.Upper
			}
			st, err := overlayfs.Stat(int(root.Fd()), item.Source.Path)
			if err != nil {
				return 0 // staging reports it
			}
			return min(st.Size, st.Blocks*512)
		})
	}
	const remedy = "(remedy: make room, or apply some of the paths)"
	switch {
	case need > free:
		return fmt.Errorf("nothing was applied: no space left on the directory's disk: the files take up %d KiB, each hard link as a copy, and %d KiB are free %s",
			need>>10, free>>10, remedy)
	case fs.Files > 0 && uint64(len(plan.Items)) > fs.Ffree:
		return fmt.Errorf("nothing was applied: no space left on the directory's disk: these are %d files, and %d more can be made %s", len(plan.Items), fs.Ffree, remedy)
	}
	return nil
}

// makeJournal makes an empty journal, which the owner can write to.
func (v *View) makeJournal() error {
	if err := os.Mkdir(v.Journal, 0o700); err != nil {
		return fmt.Errorf("making the journal: %w", err)
	}
	if err := os.Lchown(v.Journal, int(v.UID), int(v.GID)); err != nil {
		return fmt.Errorf("making the journal: %w", err)
	}
	return nil
}

// recoverJournal finishes an apply that was cut off; done reports that all of it was done, and
// pending that there was one.
func (v *View) recoverJournal(ctx context.Context) (out *Result, done, pending bool, err error) {
	out = &Result{Applied: []string{}}
	journal, err := os.OpenFile(v.Journal, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return out, false, false, nil
	}
	if err != nil {
		return out, false, true, err
	}
	at := journalState(int(journal.Fd()))
	journal.Close()
	if at == "" {
		return out, false, true, v.removeJournal()
	}
	plan := &applyPlan{Staging: review.StagingPrefix + v.ID, UID: v.UID, GID: v.GID}
	if at != begunFile {
		plan, err = v.readPlan()
		if errors.Is(err, os.ErrNotExist) { // all but the journal's removal was done
			return out, at == doneFile, true, v.removeJournal()
		}
		if err != nil {
			return out, false, true, err
		}
		plan.UID, plan.GID, plan.Staging = v.UID, v.GID, review.StagingPrefix+v.ID
	}
	res, err := v.work(ctx, plan)
	out.take(res)
	return out, res.Done, true, err
}

// isPending reports whether a journal's apply was cut off.
func isPending(journal string) bool {
	_, err := os.Lstat(journal)
	return err == nil
}

// work has a worker process do a plan, or what the journal has of it, and records the outcome.
func (v *View) work(ctx context.Context, plan *applyPlan) (result, error) {
	res, err := v.worker(ctx, plan)
	if err != nil {
		return res, err // the journal stays, for the next call
	}
	if open, err := v.unfinished(); err != nil || open && res.Error != "" {
		return res, fmt.Errorf("%s (remedy: when that is mended, `agentjail gc` finishes or undoes the apply)", errors.Join(errors.New(res.Error), err))
	}
	crash.Step("parent")
	if err := v.record(res); err != nil {
		return res, err
	}
	crash.Step("parent")
	if err := v.removeJournal(); err != nil {
		return res, err
	}
	if res.Error != "" {
		return res, fmt.Errorf("nothing was applied: %s", res.Error)
	}
	return res, nil
}

func (v *View) worker(ctx context.Context, plan *applyPlan) (res result, err error) {
	journal, err := os.OpenFile(v.Journal, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return res, fmt.Errorf("opening the journal: %w", err)
	}
	defer journal.Close()
	input, err := memory(plan)
	if err != nil {
		return res, err
	}
	defer input.Close()
	from, to, err := os.Pipe()
	if err != nil {
		return res, err
	}
	defer from.Close()
	var stderr bytes.Buffer
	// An interrupt ends neither the worker nor this process in between: the caller has ctx.
	cmd := exec.Command("/proc/self/exe", Verb)
	cmd.Env, cmd.Dir, cmd.Stderr = append([]string{"GOTRACEBACK=none"}, crash.Environ()...), "/", &stderr
	cmd.ExtraFiles = []*os.File{v.Directory, v.Upper, journal, input, to, v.lock}
	if err := cmd.Start(); err != nil {
		to.Close()
		return res, fmt.Errorf("starting the process that applies: %w", err)
	}
	to.Close()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	err = gob.NewDecoder(from).Decode(&res)
	if werr := cmd.Wait(); err != nil || werr != nil {
		return res, fmt.Errorf("the process that applies ended early: %w: %s (remedy: `agentjail workspace list` finishes or undoes the apply)",
			errors.Join(ctx.Err(), werr), strings.TrimSpace(stderr.String()))
	}
	return res, nil
}

// unfinished reports whether the journal's plan is neither done nor taken back, or its staging
// directory is left.
func (v *View) unfinished() (bool, error) {
	journal, err := os.Open(v.Journal)
	if err != nil {
		return false, err
	}
	defer journal.Close()
	switch journalState(int(journal.Fd())) {
	case planFile, undoingFile:
		return true, nil
	case begunFile:
		_, there := stateAt(int(v.Directory.Fd()), review.StagingPrefix+v.ID)
		return there, nil
	}
	return false, nil
}

// memory is a plan in a file without a name.
func memory(plan *applyPlan) (*os.File, error) {
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "plan")
	if err = gob.NewEncoder(f).Encode(plan); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("writing the plan: %w", err)
	}
	return f, nil
}

// readPlan reads the plan of the journal.
func (v *View) readPlan() (*applyPlan, error) {
	journal, err := os.Open(v.Journal)
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	f, err := openat.Regular(int(journal.Fd()), planFile, openat.OneMount)
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	defer f.Close()
	plan := new(applyPlan)
	if err := gob.NewDecoder(f).Decode(plan); err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	if err := form.Check(plan.Form, ""); err != nil {
		return nil, fmt.Errorf("reading the journal of view %s: %w", v.ID, err)
	}
	return plan, nil
}

func (v *View) removeJournal() error {
	// The state's files go last, the state of the journal is read from them.
	for _, name := range []string{temporaryFile, planFile, undoingFile, begunFile, doneFile, undoneFile} {
		if err := os.Remove(filepath.Join(v.Journal, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing the journal: %w", err)
		}
		crash.Step("parent")
	}
	if err := os.RemoveAll(v.Journal); err != nil {
		return fmt.Errorf("removing the journal: %w", err)
	}
	return nil
}
