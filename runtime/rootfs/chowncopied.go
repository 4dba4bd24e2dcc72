package rootfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/overlayfs"
)

// maxScanned bounds how many files chownForeign examines: one takes about two microseconds, and a
// jail may have made a million.
const maxScanned = 2048

// ownerScan looks for files that belong to none of the jail's ids.
type ownerScan struct {
	// changes is the layer, which has nothing but the jail's changes; root is the
	// overlay over it. Owners are changed in the overlay: it keeps copies of them.
	changes, root int
	ids           idmap.Map
	queue         []string // directories to look into, the shallow ones first
	left          int      // files that may still be looked at
	chowned       int
	incomplete    bool
}

// copiedFile in the jail's state directory records how far ChownCopied has looked: the number of
// the next file in the jail's layer, and when ChownCopied last found something, in nanoseconds
// since boot.
const copiedFile = "adopted"

// scanAgainFor is how long ChownCopied scans again after it has found a file: an engine sets the
// owner of a file only after it has written all of it.
const scanAgainFor = time.Minute

// ChownCopied changes the owner of files that an engine has put into a running jail. `docker cp`
// writes files with the host's ids. No user of the jail has those ids, so a file of mode 0600
// would be unreadable. Host id n becomes the jail's n, as it is without a user namespace. No
// process of the jail can make such a file: the kernel sets an owner from the process's own user
// namespace.
//
// dir is the jail's state directory; root and dev are where the engine has the jail's root. Nothing
// is scanned if no file was made since the last call.
func ChownCopied(dir, root string, dev uint64, ids idmap.Map) error {
	changes, err := OpenChanges(dir)
	if err != nil {
		return err
	}
	defer changes.Close()
	file := filepath.Join(dir, copiedFile)
	// The number is read before the scan: files that arrive during the scan belong to the next one.
	// Without a number, as in a full layer or one on disk, nothing is recorded.
	next, nerr := nextInode(changes)
	seen, found := readCopied(file)
	if nerr == nil && next == seen+1 && sinceBoot()-found > scanAgainFor {
		return writeCopied(file, next, found)
	}
	view, err := OpenAttached(root, dev)
	if err != nil {
		return err
	}
	defer view.Close()
	n, complete, err := chownForeign(changes, view, ids)
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

// chownForeign changes the owner of the files that belong to none of the jail's ids.
//
// changes is the jail's ephemeral layer, and root the overlay on it, without the mounts in the
// jail. Each name is opened relative to these, without following a link or leaving the file
// system. The checks and the chown use the open descriptor: whatever the jail renames meanwhile,
// the file is one of its own layer. chown(2) removes set-id bits and file capabilities. complete
// reports that all files were examined.
func chownForeign(changes, root *os.File, ids idmap.Map) (chowned int, complete bool, err error) {
	a := &ownerScan{changes: int(changes.Fd()), root: int(root.Fd()), ids: ids, queue: []string{"."}, left: maxScanned}
	if err := a.chown("."); err != nil {
		return a.chowned, false, err
	}
	for len(a.queue) > 0 && a.left > 0 {
		dir := a.queue[0]
		a.queue = a.queue[1:]
		if err := a.scan(dir); err != nil {
			return a.chowned, false, err
		}
	}
	return a.chowned, len(a.queue) == 0 && a.left > 0 && !a.incomplete, nil
}

// scan examines the entries of a directory of the changes.
func (a *ownerScan) scan(dir string) error {
	fd, err := overlayfs.Beneath(a.changes, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		a.incomplete = true // the jail has moved it
		return nil
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	for a.left > 0 {
		entries, err := f.ReadDir(256)
		for _, e := range entries {
			a.left--
			path := filepath.Join(dir, e.Name())
			if e.IsDir() {
				a.queue = append(a.queue, path)
			}
			var st unix.Stat_t
			if unix.Fstatat(fd, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			if _, _, foreign := a.owner(&st); foreign {
				if err := a.chown(path); err != nil {
					return err
				}
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				a.incomplete = true // removed meanwhile
			}
			return nil
		}
	}
	return nil
}

// chown changes the owner of one file of the overlay, if the file belongs to an engine's ids.
func (a *ownerScan) chown(path string) error {
	fd, err := overlayfs.Beneath(a.root, path, unix.O_PATH)
	if err != nil {
		a.incomplete = true
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	uid, gid, foreign := a.owner(&st)
	if !foreign {
		return nil
	}
	if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("changing the owner of a file that was put into the jail: %w", err)
	}
	a.chowned++
	return nil
}

// owner reports whether a file belongs to an engine's ids and not to the jail's, and returns its
// new owner: -1 where it stays. Devices stay: no process can open them, and overlayfs marks
// removed files by them.
func (a *ownerScan) owner(st *unix.Stat_t) (uid, gid int, foreign bool) {
	if t := st.Mode & unix.S_IFMT; t == unix.S_IFCHR || t == unix.S_IFBLK {
		return -1, -1, false
	}
	uid, gid = -1, -1
	if !a.ids.HasHostUID(st.Uid) {
		if id, ok := a.ids.HostUID(st.Uid); ok {
			uid = int(id)
		}
	}
	if !a.ids.HasHostGID(st.Gid) {
		if id, ok := a.ids.HostGID(st.Gid); ok {
			gid = int(id)
		}
	}
	return uid, gid, uid >= 0 || gid >= 0
}
