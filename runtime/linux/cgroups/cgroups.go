// Package cgroups finds control groups and reads them (cgroups(7)), in each of the
// three layouts: version 1, version 2, and version 2 without controllers beside
// version 1 (hybrid). It is on the path of every start: nothing is read but what is
// asked for.
package cgroups

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is where hosts have their control groups.
const Root = "/sys/fs/cgroup"

// MaxRead bounds what is read of one file, in bytes: a list of some 130000
// processes.
const MaxRead = 1 << 20

// Version is that of the hierarchy which is mounted at a directory: 1, 2, or 0 where
// none is. A variable for tests.
var Version = func(dir string) int {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil {
		switch int64(fs.Type) {
		case unix.CGROUP_SUPER_MAGIC:
			return 1
		case unix.CGROUP2_SUPER_MAGIC:
			return 2
		}
	}
	return 0
}

// A Group is a process's place in one hierarchy.
type Group struct {
	// Controllers are the hierarchy's as the kernel lists them, "cpu,cpuacct" or
	// "name=systemd"; "" is version 2.
	Controllers string
	// Path begins at the hierarchy's root.
	Path string
}

// Of are the groups that a process is in, by its number or "self".
func Of(pid string) ([]Group, error) {
	text, err := Read("/proc", pid+"/cgroup")
	return Parse(text), err
}

// Parse reads /proc/PID/cgroup: lines of ID:CONTROLLERS:PATH. What is none is left out.
func Parse(text string) []Group {
	var out []Group
	for line := range strings.Lines(text) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(f) == 3 {
			out = append(out, Group{f[1], filepath.Clean("/" + f[2])})
		}
	}
	return out
}

// List is Controllers one by one; of version 2 it is one empty name.
func (g Group) List() []string { return strings.Split(g.Controllers, ",") }

// Mounts is where below root the group's hierarchy is mounted, by the places that
// hosts have for it. Elsewhere a delegate may have made directories with plain files
// in them, which are no groups.
func (g Group) Mounts(root string) []string {
	dirs := []string{filepath.Join(root, strings.TrimPrefix(g.Controllers, "name="))}
	if g.Controllers == "" {
		dirs = []string{root, filepath.Join(root, "unified")}
	}
	return slices.DeleteFunc(dirs, func(dir string) bool { return Version(dir) == 0 })
}

// Controllers are those that a group of version 2 has; an error says that the
// directory is none.
func Controllers(dir string) ([]string, error) {
	text, err := Read(dir, "cgroup.controllers")
	return strings.Fields(text), err
}

// Procs are the processes in a group; where MaxRead does not hold all, the first ones.
func Procs(dir string) ([]int, error) {
	text, err := Read(dir, "cgroup.procs")
	if errors.Is(err, ErrTooLong) {
		err = nil
	}
	var out []int
	for _, f := range strings.Fields(text) {
		if pid, perr := strconv.Atoi(f); perr == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	return out, err
}

// ErrTooLong says that a file has more than MaxRead bytes.
var ErrTooLong = errors.New("longer than what is read")

// Read is the text of a group's file. Its errors are of package os, or wrap
// ErrTooLong: then the text is the first whole lines.
func Read(dir, file string) (string, error) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxRead+1))
	if len(b) > MaxRead {
		b, err = b[:bytes.LastIndexByte(b[:MaxRead], '\n')+1], &os.PathError{Op: "read", Path: f.Name(), Err: ErrTooLong}
	}
	return string(b), err
}
