package helper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/linux/cgroups"
)

// groups are the control group directories of a helper: a leaf of its own beside those of a process, so that what the jail uses up is
// not taken from the helper, and the helper's not from the jail. Of version 1 those that limit memory and processes. None are listed
// where they could not be made: the helper is then in its starter's.
func groups(pid int, name string) []string {
	of, err := cgroups.Of(strconv.Itoa(pid))
	if err != nil {
		return nil
	}
	var out []string
	for _, g := range of {
		limits := g.Controllers == "" || slices.Contains(g.List(), "memory") || slices.Contains(g.List(), "pids")
		if !limits || g.Path == "/" {
			continue
		}
		for _, root := range g.Mounts(cgroups.Root) {
			parent := filepath.Join(root, filepath.Dir(g.Path))
			dir := filepath.Join(parent, name)
			// Also for one that exists: it is what an earlier helper of this jail left.
			if unix.Access(parent, unix.W_OK) == nil && !slices.Contains(out, dir) {
				out = append(out, dir)
			}
		}
	}
	return out
}

// limit makes a helper's group and limits it. Controllers that a group has not limit nothing.
func limit(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for file, max := range map[string]int64{"memory.max": MemoryMax, "memory.swap.max": 0, "memory.limit_in_bytes": MemoryMax, "pids.max": PidsMax} {
		err := os.WriteFile(filepath.Join(dir, file), strconv.AppendInt(nil, max, 10), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return err
		}
	}
	return nil
}

// enter makes a helper's group and moves the helper there.
func enter(dir string, pid int) error {
	if err := limit(dir); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(pid), 10), 0)
}

// birth makes a helper's groups and has the calling thread's next child be born in them. Unlike moving a process, that waits for no grace
// period of the kernel (some 10 ms): a thread of version 1 may move itself alone, and clone(2) has a flag for version 2. It returns the
// group of version 2, open, or nil, and the directories that are left to be entered. The thread must end afterwards.
func birth(dirs []string) (second *os.File, left []string) {
	for _, dir := range dirs {
		err := limit(dir)
		switch {
		case err != nil:
		case cgroups.Version(dir) == 1:
			err = os.WriteFile(filepath.Join(dir, "tasks"), []byte("0"), 0)
		case second == nil:
			if second, err = os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err == nil {
				continue
			}
		default:
			err = errors.ErrUnsupported
		}
		if err != nil {
			left = append(left, dir)
		}
	}
	return second, left
}

// leave removes a helper's group, whose process has ended: it may still be on its way out.
func leave(dir string) error {
	deadline := time.Now().Add(patience)
	for {
		err := unix.Rmdir(dir)
		switch {
		case err == nil, err == unix.ENOENT:
			return nil
		case err != unix.EBUSY || time.Now().After(deadline):
			return fmt.Errorf("%s: %w", dir, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
