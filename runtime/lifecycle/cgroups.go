package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
)

// cgroupDirs returns the control group directories that the delegate will make for a container.
// Directories that exist already are left out, since they are not the jail's to remove. systemd
// removes those of the systemd driver. all reports that the delegate will make no others.
func cgroupDirs(cgroupsPath, id string, systemd bool, of traits.Traits) (dirs []string, all bool) {
	if systemd || strings.Contains(cgroupsPath, ":") {
		return nil, false
	}
	own, err := cgroups.Of("self")
	if err != nil {
		return nil, false
	}
	all = true
	// An empty path is the id.
	rel := cgroupsPath
	if rel == "" {
		rel = id
	}
	for _, g := range own {
		// A hierarchy without controllers is not mounted everywhere.
		found := g.Controllers == "" || strings.HasPrefix(g.Controllers, "name=")
		for _, root := range g.Mounts(cgroups.Root) {
			found = true
			dir := groupDir(root, base(root, g), rel, of.GroupsBelowRoot || cgroupsPath == "" && of.IDBelowRoot)
			if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) && dir != root {
				dirs = append(dirs, dir)
			} else {
				all = false
			}
		}
		all = all && found
	}
	return dirs, all && len(dirs) > 0
}

// base returns the group that runc takes for the caller's own when it makes others below it, in the
// hierarchy at root: in version 2, where processes are in leaves, the parent; with version 1 beside
// it, the topmost (opencontainers/cgroups, fs2/defaultpath.go and fs/paths.go).
func base(root string, g cgroups.Group) string {
	switch {
	case g.Controllers != "":
		return g.Path
	case root == cgroups.Root:
		return filepath.Dir(g.Path)
	}
	return "/"
}

// groupDir returns where a delegate makes a group in a hierarchy: a relative path is below the
// caller's own group or, by the delegate's traits, the root.
func groupDir(root, own, rel string, belowRoot bool) string {
	if filepath.IsAbs(rel) || belowRoot {
		own = "/"
	}
	return filepath.Join(root, own, filepath.Clean("/"+rel))
}

// cgroupPatience is how long a killed process may take to leave its group.
const cgroupPatience = 2 * time.Second

// removeCgroups ends the processes in the jail's control groups and removes the groups, if the
// delegate has not done so.
func removeCgroups(j *state.Brief) error {
	var errs []error
	deadline := time.Now().Add(cgroupPatience)
	for _, dir := range j.CgroupDirs {
		for {
			err := removeGroup(dir)
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
				errs = append(errs, fmt.Errorf("removing control group %s: %w", dir, err))
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return errors.Join(errs...)
}

// removeGroup kills the processes of a group, and removes it and the groups below it.
func removeGroup(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || err == unix.ENOENT || err == unix.ENOTDIR {
		return nil
	}
	procs, _ := cgroups.Procs(dir)
	for _, pid := range procs {
		if pid > 1 && pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	entries, rerr := os.ReadDir(dir)
	if rerr != nil {
		if errors.Is(rerr, os.ErrNotExist) {
			return nil
		}
		return rerr
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
		return err
	}
	return nil
}
