package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/state"
)

// adoptedFile in the jail's state directory says up to where adopt has looked: the
// number of the next file in its layer, and when it last found something, in
// nanoseconds since boot.
const adoptedFile = "adopted"

// adoptAgain is how long adopt looks each time after it has found something: an
// engine sets the owner of a file when it has written all of it.
const adoptAgain = time.Minute

// adopt gives what an engine has put into the running jail to the jail's ids. It is
// called where something in the jail may be about to use it. What fails only costs
// reading those files.
func (w *Runtime) adopt(j *state.Brief) {
	if j.EngineRoot == "" || j.EngineRootDev == 0 || !j.InitAlive() {
		return
	}
	defer w.step("adopt")()
	if err := w.tryAdopt(j); err != nil && !errors.Is(err, rootfs.ErrNoChanges) && j.InitAlive() {
		w.Log.Warnf("agentjail: what was copied into the jail may be unreadable there: %v", err)
	}
}

func (w *Runtime) tryAdopt(j *state.Brief) error {
	changes, err := rootfs.OpenChanges(w.Store.Dir(j.Key))
	if err != nil {
		return err
	}
	defer changes.Close()
	file := filepath.Join(w.Store.Dir(j.Key), adoptedFile)
	// Before looking: what comes while we look is for the next time. Without a
	// number, as in a layer that is full, there is no telling.
	next, nerr := rootfs.NextInode(changes)
	seen, found := readAdopted(file)
	if nerr == nil && next == seen+1 && sinceBoot()-found > adoptAgain {
		return writeAdopted(file, next, found)
	}
	root, err := engineView(j)
	if err != nil {
		return err
	}
	defer root.Close()
	n, complete, err := rootfs.ChownCopied(changes, root, j.IDs)
	if err != nil {
		return err
	}
	if n > 0 {
		found = sinceBoot()
	}
	if nerr != nil || !complete {
		next = 0
	}
	return writeAdopted(file, next, found)
}

// engineView opens the engine's view of the jail's root: its overlay, without what
// is mounted in the jail.
func engineView(j *state.Brief) (*os.File, error) {
	root, err := rootfs.OpenRoot(j.EngineRoot)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil || st.Dev != j.EngineRootDev {
		root.Close()
		return nil, fmt.Errorf("the jail's root is not mounted at %s", j.EngineRoot)
	}
	return root, nil
}

// readAdopted reads what writeAdopted wrote: zeros if there is none. found is then
// long ago.
func readAdopted(path string) (next uint64, found time.Duration) {
	text, err := os.ReadFile(path)
	if err == nil {
		_, err = fmt.Sscan(string(text), &next, &found)
	}
	if err != nil {
		return 0, -2 * adoptAgain
	}
	return next, found
}

func writeAdopted(path string, next uint64, found time.Duration) error {
	return os.WriteFile(path, fmt.Appendf(nil, "%d %d", next, int64(found)), 0o600)
}

// sinceBoot does not jump when somebody sets the clock (clock_gettime(2)).
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
