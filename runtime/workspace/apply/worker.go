package apply

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	cf "agentjail.dev/runtime/kernel/callfilter"
	"agentjail.dev/runtime/kernel/landlock"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/privileges"
	"agentjail.dev/runtime/workspace/review"
)

// Verb is the argument that has a program call Work.
const Verb = "workspace-apply-worker"

// The worker's descriptors.
// The last one is the directory's lock, which lasts as long as the process, whatever becomes of its
// parent.
const (
	dirFD, upperFD, journalFD, planFD, resultFD, _ = 3, 4, 5, 6, 7, 8
)

// The files of a journal, which is a directory. The last one of them that exists is the state.
const (
	begunFile     = "begun"     // the staging directory may exist, with nothing but new files
	planFile      = "plan"      // committed: the operations are done, or will be
	undoingFile   = "undoing"   // they are taken back
	doneFile      = "done"      // all are done
	undoneFile    = "undone"    // all are taken back
	temporaryFile = "plan.part" // a plan that is being written
)

// result is what the worker reports.
type result struct {
	Done     bool              // else all is as it was
	Error    string            // why not
	Failed   map[string]string // by path, of an apply that goes on without
	Kept     map[string]string // by path: what could not be taken back
	Warnings []string
}

// worker applies a plan as the directory's owner.
type worker struct {
	dir, upper, journal, staging int
	fresh                        bool   // the plan is a new one
	group                        uint32 // of the staging directory, which no other process has
	regroup                      bool   // a new file takes its directory's group
	plan                         *applyPlan
	shut                         map[int]int // by item: opened before the privileges were dropped
	failed, kept                 map[string]string
	warnings                     []string

	buf    []byte
	summer review.Summer
	// The directories of the last paths in the directory itself, the view, the directory as a
	// source, and the staging directory.
	parentDir, upperDir, lowerDir, stagingDir dirCache
}

// Work is the process that applies a plan, or finishes the one of the journal. It begins as root,
// and drops its privileges before it writes.
func Work() int {
	out := os.NewFile(resultFD, "result")
	r, err := work()
	if err != nil {
		r.Error = err.Error()
	}
	if err := gob.NewEncoder(out).Encode(r); err != nil {
		return 1
	}
	return 0
}

func work() (r result, err error) {
	w := &worker{dir: dirFD, upper: upperFD, journal: journalFD, staging: -1, failed: map[string]string{}, kept: map[string]string{}}
	in := os.NewFile(planFD, "plan")
	w.plan = new(applyPlan)
	if err := gob.NewDecoder(in).Decode(w.plan); err != nil {
		return r, fmt.Errorf("reading the plan: %w", err)
	}
	in.Close()
	w.group = w.plan.GID
	w.openShut()
	if err := w.prepare(); err != nil {
		return r, err
	}
	if err := w.confine(); err != nil {
		return r, err
	}
	done, err := w.run()
	return result{Done: done, Failed: w.failed, Kept: w.kept, Warnings: w.warnings}, err
}

// openShut opens the files that the owner cannot read.
func (w *worker) openShut() {
	w.shut = map[int]int{}
	for i, item := range w.plan.Items {
		if item.Shut && len(w.shut) < maxShut {
			root := w.dir
			if item.Source.Upper {
				root = w.upper
			}
			if fd, st, err := openFile(root, item.Source.Path); err == nil {
				if st.Uid != w.plan.UID { // never what is another user's
					unix.Close(fd)
					continue
				}
				w.shut[i] = fd
			}
		}
	}
}

// confine becomes the directory's owner, in a domain of the view, the directory and the journal.
func (w *worker) confine() error {
	uid, gid := int(w.plan.UID), int(w.plan.GID)
	if uid == 0 {
		return errors.New("the directory belongs to root (remedy: chown it to the user who works in it)")
	}
	unix.Umask(0)
	if err := errors.Join(syscall.Setgroups([]int{gid, int(w.group)}), syscall.Setresgid(gid, gid, gid),
		syscall.Setresuid(uid, uid, uid)); err != nil {
		return fmt.Errorf("becoming the directory's owner: %w", err)
	}
	if err := privileges.Keep(); err != nil {
		return err
	}
	if err := w.enterDomain(); err != nil {
		return fmt.Errorf("entering a Landlock domain: %w", err)
	}
	return cf.Load(filter(os.Getpid(), w.plan.GID))
}

// enterDomain limits what the process can open. A domain allows moves between directories since
// version 2 (Linux 5.19), as views need anyway.
func (w *worker) enterDomain() error {
	abi, err := landlock.ABI()
	if err != nil || abi < 2 {
		w.warnings = append(w.warnings, "this kernel has no Landlock of version 2: the apply was held by the owner's rights and the system call filter alone")
		return nil
	}
	const (
		read  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
		write = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_REG
		trees = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
			unix.LANDLOCK_ACCESS_FS_REFER |
			// For the removal of such files. The system call filter permits no mknod.
			unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	)
	handled := uint64(1<<13-1) | unix.LANDLOCK_ACCESS_FS_REFER // all of version 1
	var truncate uint64
	if abi >= 3 {
		truncate = unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	rules, err := landlock.Create(&unix.LandlockRulesetAttr{Handled_access_fs: handled | truncate})
	if err != nil {
		return err
	}
	defer unix.Close(rules)
	for fd, rights := range map[int]uint64{
		w.upper: read, w.dir: read | write | trees | truncate,
		w.journal: read | write | truncate,
	} {
		if err := landlock.AllowBeneath(rules, &unix.LandlockPathBeneathAttr{
			Allowed_access: rights,
			Parent_fd:      int32(fd),
		}); err != nil {
			return err
		}
	}
	return landlock.RestrictAll(rules)
}

// filter is the worker's system call filter.
func filter(pid int, gid uint32) []unix.SockFilter {
	f := cf.Begin()
	f.OwnSignals(pid)
	f.Call(unix.SYS_FCHOWNAT, cf.Arg(2), cf.Equal(1<<32-1, 0, 3), cf.Arg(3), cf.Equal(gid, 0, 1), cf.Allow, cf.Errno(unix.EPERM))
	f.Call(unix.SYS_KILL, cf.Arg(0), cf.Equal(uint32(pid), 0, 1), cf.Allow, cf.Errno(unix.EPERM))
	return f.Only(slices.Concat([]uint32{
		unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_MMAP, unix.SYS_DUP, unix.SYS_PREAD64, unix.SYS_PWRITE64,
		unix.SYS_LSEEK,
		unix.SYS_COPY_FILE_RANGE, unix.SYS_FTRUNCATE, unix.SYS_FSYNC, unix.SYS_SYNCFS, unix.SYS_GETDENTS64, unix.SYS_OPENAT2,
		statCall, unix.SYS_MKDIRAT, unix.SYS_SYMLINKAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_FCHMOD, unix.SYS_FCHMODAT,
		unix.SYS_UTIMENSAT,
	}, cf.Runtime)...)
}

// run does what the journal's state requires, and reports whether the plan was done.
func (w *worker) run() (done bool, err error) {
	switch at := journalState(w.journal); {
	case w.fresh:
		return w.apply()
	case at == begunFile:
		return false, w.abandon()
	case slices.Contains([]string{planFile, undoingFile, doneFile, undoneFile}, at):
		return w.finish(at)
	default:
		return false, fmt.Errorf("unknown state %q of the journal", at)
	}
}

// apply applies a new plan.
func (w *worker) apply() (bool, error) {
	failed, err := w.stage()
	if err == nil {
		crash.Step("apply")
		err = w.sync()
	}
	if err != nil {
		return false, errors.Join(err, w.abandon())
	}
	w.failed = failed
	if len(failed) > 0 && !w.plan.Each {
		return false, w.abandon()
	}
	w.dropFailed()
	if err := w.writePlan(); err != nil {
		return false, errors.Join(err, w.abandon())
	}
	return w.finish(planFile)
}

// dropFailed drops operations that could not be prepared.
func (w *worker) dropFailed() {
	incomplete := func(at string) bool {
		for p := range w.failed {
			if pathname.Within(p, at) {
				return true
			}
		}
		return false
	}
	for i := range w.plan.Ops {
		op := &w.plan.Ops[i]
		op.Settle = op.Settle && !incomplete(op.Path)
	}
	w.plan.Units = slices.DeleteFunc(w.plan.Units, incomplete)
	w.plan.Ops = slices.DeleteFunc(w.plan.Ops, func(op operation) bool {
		return (op.Do == add || op.Do == replace) && op.New.Ino == 0
	})
}

// finish brings a committed plan to its end.
func (w *worker) finish(at string) (bool, error) {
	if at == planFile {
		if w.commit() == nil {
			crash.Step("apply")
			if err := errors.Join(w.sync(), w.note(doneFile)); err != nil {
				return false, err
			}
			at = doneFile
		} else {
			if err := w.note(undoingFile); err != nil {
				return false, err
			}
			at = undoingFile
		}
	}
	if at == undoingFile {
		w.undo()
		if err := errors.Join(w.sync(), w.note(undoneFile)); err != nil {
			return false, err
		}
	}
	return at == doneFile, w.clean(at)
}

func (w *worker) sync() error {
	if err := unix.Syncfs(w.dir); err != nil {
		return fmt.Errorf("writing to the disk: %w", err)
	}
	return nil
}

// abandon removes what a plan that was not committed has made.
func (w *worker) abandon() error { return w.clean(begunFile) }

// note makes an empty file of the journal.
func (w *worker) note(name string) error {
	crash.Step("apply")
	fd, err := openat.Create(w.journal, name, openat.OneMount)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	defer unix.Close(fd)
	return errors.Join(unix.Fsync(fd), unix.Fsync(w.journal))
}

// writePlan writes the plan to the journal: from then on it is done, or taken back.
func (w *worker) writePlan() error {
	crash.Step("apply")
	fd, err := openat.Create(w.journal, temporaryFile, openat.OneMount)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	f := os.NewFile(uintptr(fd), temporaryFile)
	defer f.Close()
	w.plan.Items = nil
	if err := errors.Join(gob.NewEncoder(f).Encode(w.plan), f.Sync()); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	crash.Step("apply")
	if err := unix.Renameat2(w.journal, temporaryFile, w.journal, planFile, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return unix.Fsync(w.journal)
}

// journalState is the last of the journal's files that exists.
func journalState(journal int) string {
	for _, name := range []string{undoneFile, doneFile, undoingFile, planFile, begunFile} {
		if _, there := state(journal, name); there {
			return name
		}
	}
	return ""
}

func readNames(dir int) ([]string, error) {
	f, err := openat.File(dir, ".", openat.OneMount, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
