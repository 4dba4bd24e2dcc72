// Package cgroups finds control groups and reads them (cgroups(7)), in each of the
// three layouts: version 1, version 2, and version 2 without controllers beside
// version 1 (hybrid). It is on the path of every start: nothing is read but what is
// requested.
package cgroups

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/pathname"
)

// Root is where hosts have their control groups.
const Root = "/sys/fs/cgroup"

// maxRead bounds what is read of one file, in bytes: a list of some 130000
// processes.
const maxRead = 1 << 20

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

// Parse reads /proc/PID/cgroup: lines of ID:CONTROLLERS:PATH. Other lines are left out.
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

// Controllers are those that a group of version 2 has; an error means that the directory is no such
// group.
func Controllers(dir string) ([]string, error) {
	text, err := Read(dir, "cgroup.controllers")
	return strings.Fields(text), err
}

// Procs are the processes in a group; where maxRead does not hold all, the first ones.
func Procs(dir string) ([]int, error) {
	text, err := Read(dir, "cgroup.procs")
	if errors.Is(err, atomicfile.ErrTooLong) {
		err = nil
	}
	var out []int
	for f := range strings.FieldsSeq(text) {
		if pid, perr := strconv.Atoi(f); perr == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	return out, err
}

// Read is the text of a group's file. Its errors are of package os. One that wraps
// atomicfile.ErrTooLong comes with the first whole lines. It uses system calls: the first os.File
// of a process sets up epoll.
func Read(dir, file string) (string, error) {
	path := filepath.Join(dir, file)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b, err := atomicfile.ReadFD(fd, make([]byte, 0, 512), maxRead) // most files are shorter
	if err == nil {
		return string(b), nil
	}
	if errors.Is(err, atomicfile.ErrTooLong) {
		b = b[:bytes.LastIndexByte(b[:maxRead], '\n')+1]
	}
	return string(b), &os.PathError{Op: "read", Path: path, Err: err}
}

// Once is Read that reads each file once: for several questions about one moment.
func Once() func(dir, file string) (string, error) {
	type answer struct {
		text string
		err  error
	}
	read := map[[2]string]answer{}
	return func(dir, file string) (string, error) {
		a, known := read[[2]string{dir, file}]
		if !known {
			a.text, a.err = Read(dir, file)
			read[[2]string{dir, file}] = a
		}
		return a.text, a.err
	}
}

// Number is the number in a file's text: behind the word key in its line, or with "" that of a text
// which is one number. It is not known where there is no such number, as with "max".
func Number(text, key string) (n uint64, known bool) {
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, key)
		if found && (key == "" || strings.HasPrefix(rest, " ")) {
			n, err := strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// v1 are the names of version 1's controllers, and of systemd's hierarchy without one.
var v1 = [...]string{
	"memory", "pids", "cpu", "cpuacct", "cpuset", "blkio", "devices", "freezer", "hugetlb", "net_cls", "net_prio", "perf_event",
	"rdma", "misc", "systemd",
}

// hierarchyOf are the controllers of the hierarchy of version 1 that a group is in, by
// the place where hosts mount it. None are version 2's, and those of a group elsewhere.
func hierarchyOf(dir string) []string {
	rel, ok := pathname.Rel(dir, Root)
	if !ok || allV2() {
		return nil
	}
	first, _, _ := strings.Cut(rel, "/")
	list := strings.Split(first, ",")
	if !slices.ContainsFunc(list, func(name string) bool { return slices.Contains(v1[:], name) }) {
		return nil
	}
	return list
}

// allV2 reports that the host has no hierarchy of version 1: then a group may be called as one.
var allV2 = sync.OnceValue(func() bool { return Version(Root) == 2 })

// CanHave reports whether a group can have a file: in version 1 one controller has it, that
// whose name it begins with. Looking for what cannot be there costs each start and
// delete dozens of system calls.
func CanHave(dir, file string) bool {
	list := hierarchyOf(dir)
	controller, _, _ := strings.Cut(file, ".")
	return list == nil || slices.Contains(list, controller)
}

// Counting are the controllers that count for a group: those of its hierarchy of version 1, and of
// version 2 one empty name. There is none in a hierarchy of version 2 that has no controllers,
// beside those of version 1.
func Counting(dir string) []string {
	switch list := hierarchyOf(dir); {
	case list != nil:
		return list
	case strings.HasPrefix(dir, Root+"/unified/") && !allV2():
		return nil
	}
	return []string{""}
}
