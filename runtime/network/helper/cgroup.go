package helper

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

	"agentjail.dev/runtime/kernel/cgroups"
)

// controllers of version 1 in whose hierarchies a helper has a group: those that limit memory,
// processes and processor time.
var controllers = []string{"memory", "pids", "cpu"}

// A place is a helper's group in one hierarchy, and the group of the process that it stands beside.
type place struct{ dir, beside string }

// places returns the control groups of a helper: a leaf of its own beside those of a process, so
// that the jail does not use up the helper's limits, nor the helper the jail's. Groups that could
// not be made are left out: the helper is then in its starter's.
func places(pid int, name string) []place {
	of, err := cgroups.Of(strconv.Itoa(pid))
	if err != nil {
		return nil
	}
	var out []place
	for _, g := range of {
		limits := g.Controllers == "" || slices.ContainsFunc(controllers, func(c string) bool { return slices.Contains(g.List(), c) })
		if !limits || g.Path == "/" {
			continue
		}
		for _, root := range g.Mounts(cgroups.Root) {
			parent := filepath.Join(root, filepath.Dir(g.Path))
			p := place{filepath.Join(parent, name), filepath.Join(root, g.Path)}
			// Existing groups are included: an earlier helper of this jail left them.
			if unix.Access(parent, unix.W_OK) == nil && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

func dirs(all []place) (out []string) {
	for _, p := range all {
		out = append(out, p.dir)
	}
	return out
}

// A bound is a file of a control group and the value that it is to have.
type bound struct{ file, value string }

// own are the bounds that every helper has. On version 2 buffers of sockets are memory. They grow
// while there is any: from memory.high on they do not, and the helper itself has the rest up to
// memory.max. Otherwise a jail that does not read its sockets could have its helper killed.
var own = []bound{
	{"memory.high", strconv.Itoa(MemoryMax)}, {"memory.max", strconv.Itoa(MemoryMax + SocketsMax)}, {"memory.swap.max", "0"},
	{"memory.limit_in_bytes", strconv.Itoa(MemoryMax)}, {"pids.max", strconv.Itoa(PidsMax)},
}

const (
	idleFile    = "cpu.idle"
	quotaFile   = "cpu.cfs_quota_us"
	socketsFile = "memory.kmem.tcp.limit_in_bytes"
	// unlimited is the value of version 1 for no limit: the largest number of whole pages.
	unlimited = 1<<63 - 1<<16
)

// followed are the files by which a helper has the bounds of its jail: as much processor time
// (cpu.max; cfs_period_us, cfs_quota_us), the same share where processors are short, and on version
// 1 as much memory in buffers of sockets. There memory.limit_in_bytes does not count those
// (Documentation/admin-guide/cgroup-v1/memory.rst, 2.7); on version 2 memory.max does.
var followed = []string{idleFile, "cpu.max", "cpu.weight", "cpu.shares", "cpu.cfs_period_us", quotaFile, socketsFile}

// follow returns the bounds that a helper has from its jail, whose groups it is beside. They are
// for all of its groups: each file is in one.
func follow(all []place) (out []bound, err error) {
	for _, p := range all {
		idle := false
		for _, file := range followed {
			if !cgroups.CanHave(p.beside, file) || len(cgroups.Counting(p.beside)) == 0 {
				continue
			}
			if idle && (file == "cpu.weight" || file == "cpu.shares") { // an idle group has none, and takes none
				continue
			}
			text, err := cgroups.Read(p.beside, file)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			value := strings.TrimSpace(text)
			idle = idle || file == idleFile && value == "1"
			if n, err := strconv.ParseInt(value, 10, 64); file == socketsFile && err == nil && n >= unlimited {
				value = strconv.Itoa(SocketsMax)
			}
			if file == "cpu.cfs_period_us" { // a period that the former quota does not fit is refused
				out = append(out, bound{quotaFile, "-1"})
			}
			out = append(out, bound{file, value})
		}
	}
	return out, nil
}

// limit makes a helper's group and limits it. Controllers that the group lacks limit nothing.
func limit(dir string, of []bound) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return write(dir, of)
}

func write(dir string, of []bound) error {
	if len(cgroups.Counting(dir)) == 0 {
		return nil
	}
	for _, b := range of {
		if !cgroups.CanHave(dir, b.file) {
			continue
		}
		err := os.WriteFile(filepath.Join(dir, b.file), []byte(b.value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return err
		}
	}
	return nil
}

// Follow applies the limits of the jail, which may have changed, to the jail's helper, if there is
// one. pid is the jail's first process.
func Follow(dir string, pid int) error {
	r, err := Load(dir)
	if err != nil || r == nil || !r.Alive() {
		return err
	}
	of, err := follow(places(pid, r.Group))
	for _, dir := range r.Cgroups {
		err = errors.Join(err, write(dir, of))
	}
	if err != nil && r.Alive() {
		return fmt.Errorf("limiting %s as its jail: %w", r.Name, err)
	}
	return nil
}

// enter makes a helper's group and moves the helper there.
func enter(dir string, of []bound, pid int) error {
	if err := limit(dir, of); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(pid), 10), 0)
}

// birth makes a helper's groups and has the calling thread's next child be born in them. Unlike
// moving a process, that waits for no grace period of the kernel (some 10 ms): a thread of version
// 1 may move itself alone, and clone(2) has a flag for version 2. It returns the group of version
// 2, open, or nil, and the directories that are left to be entered. The thread must end afterwards.
func birth(dirs []string, of []bound) (second *os.File, left []string) {
	for _, dir := range dirs {
		err := limit(dir, of)
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

// leave removes the group of a helper whose process has ended: the process may still be exiting.
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
