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

// enter makes a helper's group, limits it and moves the helper there. Controllers that a group has not limit nothing.
func enter(dir string, pid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for file, max := range map[string]int64{"memory.max": MemoryMax, "memory.swap.max": 0, "memory.limit_in_bytes": MemoryMax, "pids.max": PidsMax} {
		err := os.WriteFile(filepath.Join(dir, file), strconv.AppendInt(nil, max, 10), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(pid), 10), 0)
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
