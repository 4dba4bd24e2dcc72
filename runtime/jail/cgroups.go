package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/delegate/traits"
	"agentjail.dev/runtime/host"
	"agentjail.dev/runtime/state"
)

// cgroupDirs are the control group directories that the delegate will make for a
// container: only those that do not exist yet, since what was there before is
// not the jail's to remove. The systemd driver's are systemd's to end. all says
// that there will be no others.
func cgroupDirs(cgroupsPath, id string, systemd bool, of traits.Traits) (dirs []string, all bool) {
	if systemd || strings.Contains(cgroupsPath, ":") {
		return nil, false
	}
	own, err := ownGroups()
	if err != nil {
		return nil, false
	}
	all = true
	// An empty path is the id.
	rel := cgroupsPath
	if rel == "" {
		rel = id
	}
	for _, f := range own {
		// A hierarchy without controllers is not mounted everywhere.
		found := f[1] == "" || strings.HasPrefix(f[1], "name=")
		for _, root := range hierarchies(f[1]) {
			found = true
			dir := groupDir(root, base(root, f), rel, of.GroupsBelowRoot)
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

// ownGroups are the control groups that this process is in.
func ownGroups() ([][]string, error) { return groupsOf("self") }

// groupsOf are the control groups that a process is in: number, controllers and
// path of each line of /proc/PID/cgroup (cgroups(7)).
func groupsOf(pid string) ([][]string, error) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
	if err != nil {
		return nil, err
	}
	var out [][]string
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(f) == 3 {
			out = append(out, f)
		}
	}
	return out, nil
}

// base is the group that runc takes for the caller's own where it makes others
// below it, by a line of /proc/self/cgroup: in version 2, where processes lie in
// leaves, the one above; beside version 1 the topmost (opencontainers/cgroups,
// fs2/defaultpath.go and fs/paths.go).
func base(root string, line []string) string {
	switch {
	case line[1] != "":
		return line[2]
	case root == host.CgroupRoot:
		return filepath.Dir(line[2])
	}
	return "/"
}

// groupDir is where a delegate makes a group in a hierarchy: one that is not
// absolute is below the caller's own or, by the delegate's traits, the root.
func groupDir(root, own, rel string, belowRoot bool) string {
	if filepath.IsAbs(rel) || belowRoot {
		own = "/"
	}
	return filepath.Join(root, own, filepath.Clean("/"+rel))
}

// hierarchies is where the hierarchy with these controllers is mounted.
func hierarchies(controllers string) []string {
	roots := []string{filepath.Join(host.CgroupRoot, strings.TrimPrefix(controllers, "name="))}
	if controllers == "" { // version 2, alone or beside version 1
		roots = []string{host.CgroupRoot, filepath.Join(host.CgroupRoot, "unified")}
	}
	return slices.DeleteFunc(roots, func(root string) bool { return !isHierarchy(root) })
}

// isHierarchy says whether control groups are mounted at a directory. Elsewhere
// crun makes directories with plain files in them, which are not ours to know.
func isHierarchy(root string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(root, &fs) == nil && (fs.Type == unix.CGROUP_SUPER_MAGIC || fs.Type == unix.CGROUP2_SUPER_MAGIC)
}

// cgroupPatience is how long a killed process may take to leave its group.
const cgroupPatience = 2 * time.Second

// removeCgroups ends what is left in the jail's control groups, and removes
// them, where the delegate has not done so.
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

// removeGroup kills what is in a group and removes it with those below it.
func removeGroup(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || err == unix.ENOENT || err == unix.ENOTDIR {
		return nil
	}
	if procs, rerr := os.ReadFile(filepath.Join(dir, "cgroup.procs")); rerr == nil {
		for _, p := range strings.Fields(string(procs)) {
			if pid, perr := strconv.Atoi(p); perr == nil && pid > 1 && pid != os.Getpid() {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
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
