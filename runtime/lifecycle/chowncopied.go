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

// copiedFile in the jail's state directory records how far chownCopied has looked: the number of
// the next file in the jail's layer, and when chownCopied last found something, in nanoseconds
// since boot.
const copiedFile = "adopted"

// scanAgainFor is how long chownCopied scans again after it has found a file: an engine sets the
// owner of a file only after it has written all of it.
const scanAgainFor = time.Minute

// chownCopied changes the owner of files that an engine put into the running jail to the jail's
// ids. It is called before something in the jail may use them. A failure only means that the jail
// cannot read those files.
func (r *Runtime) chownCopied(j *state.Brief) {
	if j.EngineRoot == "" || j.EngineRootDev == 0 || !j.InitAlive() {
		return
	}
	defer r.step("chown copied files")()
	if err := r.tryChownCopied(j); err != nil && !errors.Is(err, rootfs.ErrNoChanges) && j.InitAlive() {
		r.Log.Warnf("agentjail: files copied into the jail may be unreadable there: %v", err)
	}
}

func (r *Runtime) tryChownCopied(j *state.Brief) error {
	changes, err := rootfs.OpenChanges(r.Store.Dir(j.Key))
	if err != nil {
		return err
	}
	defer changes.Close()
	file := filepath.Join(r.Store.Dir(j.Key), copiedFile)
	// The number is read before the scan: files that arrive during the scan belong to the next one.
	// Without a number, as in a full layer, nothing is recorded.
	next, nerr := rootfs.NextInode(changes)
	seen, found := readCopied(file)
	if nerr == nil && next == seen+1 && sinceBoot()-found > scanAgainFor {
		return writeCopied(file, next, found)
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
	return writeCopied(file, next, found)
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

// readCopied reads the file that writeCopied wrote. If there is none it returns zeros: found is
// then long ago.
func readCopied(path string) (next uint64, found time.Duration) {
	text, err := os.ReadFile(path)
	if err == nil {
		_, err = fmt.Sscan(string(text), &next, &found)
	}
	if err != nil {
		return 0, -2 * scanAgainFor
	}
	return next, found
}

func writeCopied(path string, next uint64, found time.Duration) error {
	return os.WriteFile(path, fmt.Appendf(nil, "%d %d", next, int64(found)), 0o600)
}

// sinceBoot returns the time since boot, which does not jump when the clock is set
// (clock_gettime(2)).
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
