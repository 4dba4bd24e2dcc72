package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/sandbox"
	"agentjail.dev/runtime/state"
)

// asUser completes the options of a sandbox that an ordinary user makes, in a user namespace of the
// user's own.
func asUser(o *sandbox.Options) error {
	own, err := writesOwn(*o)
	if err != nil {
		return err
	}
	uids, gids, err := rootless.Maps()
	if err != nil {
		return err
	}
	o.UIDs = rootless.JailMap(uids, o.UID, own)
	o.GIDs = rootless.JailMap(gids, o.GID, own)
	o.Root, o.Directories, err = emptyRoot()
	return err
}

// writesOwn reports whether the sandbox mounts what its user owns: only then does the jail have the
// user's id. A workspace of another user's is refused, unless it is only read.
func writesOwn(o sandbox.Options) (own bool, err error) {
	for _, dir := range append([]string{o.Workspace}, o.Further...) {
		if dir == "" {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return false, err
		}
		if st.Uid != 0 && !o.ReadOnly {
			return false, fmt.Errorf("workspace %s belongs to another user, as whom a sandbox without root cannot work (remedy: --read-only, or sudo agentjail sandbox ...)", dir)
		}
		own = true
	}
	return own || len(o.Volumes) > 0, nil
}

// emptyRoot returns a directory like this machine's root, whose directories are empty, and those of
// them that a sandbox shows. An overlay cannot lie on the root itself: the mounts below it may not
// be taken off in a user namespace (mount_namespaces(7)).
func emptyRoot() (root string, shown []string, err error) {
	store, err := state.Default()
	if err != nil {
		return "", nil, err
	}
	if root, err = store.Private("machine"); err != nil {
		return "", nil, err
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return "", nil, err
	}
	for _, e := range entries {
		from, at := "/"+e.Name(), filepath.Join(root, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0:
			err = sameLink(from, at)
		case e.IsDir():
			if err = os.Mkdir(at, 0o755); errors.Is(err, os.ErrExist) {
				err = nil
			}
			if !sandbox.Hides(from) && !sandbox.Mounts(from) {
				shown = append(shown, from)
			}
		}
		if err != nil {
			return "", nil, err
		}
	}
	// The first subordinate ids, which are the jail's root's.
	return root, shown, errors.Join(os.Lchown(root, 1, 1), os.Chmod(root, 0o755))
}

// gcAsUser executes an ordinary user's gc again where it can end the processes of the jails that it
// looks at: of each in the user namespace that the jail was made in, then in one of this call's.
func gcAsUser(ids []string) error {
	if os.Geteuid() == 0 || rootless.Inside() {
		return nil
	}
	if len(ids) == 1 {
		if _, err := state.JoinAny(ids[0]); err != nil {
			return err
		}
		return rootless.MustEnter()
	}
	store, err := state.Default()
	if err != nil {
		return err
	}
	if err := endWaiting(store); err != nil {
		return err
	}
	keys, err := store.Keys()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, key := range keys {
		b, err := store.Brief(key)
		if err != nil || !b.Bound || b.CreatorAlive() || !store.Complete(b).InitAlive() {
			continue
		}
		cmd := exec.Command(self, "gc", b.ID)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("reclaiming %s: %w", b.ID, err)
		}
	}
	return rootless.MustEnter()
}

// endWaiting kills first processes that a delegate left which was killed with its caller and with
// the keeper. No record has such a process. It waits at a file of the delegate's, in a directory
// that has the jail's id.
func endWaiting(store state.Store) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, perr := strconv.Atoi(filepath.Base(dir))
		if perr != nil || waitsFor(dir, store) == "" {
			continue
		}
		fd, perr := unix.PidfdOpen(pid, 0)
		if perr != nil {
			continue // it has ended
		}
		// Now the number is this process's.
		if id := waitsFor(dir, store); id != "" && !made(store, id) {
			if kerr := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); kerr != nil && kerr != unix.ESRCH {
				err = errors.Join(err, fmt.Errorf("killing process %d: %w", pid, kerr))
			}
			const patience = 5000 // milliseconds
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, patience)
		}
		unix.Close(fd)
	}
	return err
}

// waitsFor returns the id of the user's jail whose start a process waits for, or "".
func waitsFor(dir string, store state.Store) string {
	files, _ := filepath.Glob(dir + "/fd/*")
	for _, f := range files {
		to, err := os.Readlink(f)
		rest, below := strings.CutPrefix(strings.TrimSuffix(to, " (deleted)"), filepath.Join(store.Root, "delegate")+"/")
		if id, name, _ := strings.Cut(rest, "/"); err == nil && below && name == "exec.fifo" {
			return id
		}
	}
	return ""
}

// made reports whether a process that makes a jail lives.
func made(store state.Store, id string) bool {
	keys, err := store.KeysOf(id)
	for _, key := range keys {
		b, err := store.Brief(key)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil || b.CreatorAlive() {
			return true
		}
	}
	return err != nil
}

// sameLink makes a symbolic link like another one.
func sameLink(from, at string) error {
	to, err := os.Readlink(from)
	if err != nil {
		return err
	}
	if had, err := os.Readlink(at); err == nil && had == to {
		return nil
	}
	tmp := at + ".new"
	if err := os.Symlink(to, tmp); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Rename(tmp, at)
}

// announceLess prints in one line what a sandbox without root has less than one of root's.
func announceLess() {
	if !rootless.Inside() {
		return
	}
	fmt.Fprintln(os.Stderr, "agentjail: without root: "+rootless.Less)
}

// checkHeld refuses limits that nothing holds: without root there is no control group.
func checkHeld(tighten map[string]string) error {
	v, is := tighten[policy.AnnotationPrefix+"limits.memory"]
	if !is || !rootless.Inside() {
		return nil
	}
	return fmt.Errorf("--tighten limits.memory=%s: without root no control group holds it (remedy: sudo agentjail sandbox ..., or without this limit)", v)
}
