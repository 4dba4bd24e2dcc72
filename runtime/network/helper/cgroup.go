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

// A place is a helper's group in one hierarchy, and the jail's.
type place struct{ dir, jail string }

// shared reports whether the helper's group is in the jail's, whose limits hold for both together.
func (p place) shared() bool { return filepath.Dir(p.dir) == p.jail }

// places returns the control groups of the helper of a jail, of which pid is a process. They are
// leaves beside the jail's, so that the jail does not use up the helper's limits, nor the helper
// the jail's. For processor time on version 1 the leaf is in the jail's group. On version 2 a group
// with processes has none below it that share one limit and divide another (cgroups(7), no internal
// processes). Groups that could not be made are left out: the helper is then in its starter's.
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
			jail := filepath.Join(root, g.Path)
			parent := filepath.Dir(jail)
			if slices.Contains(g.List(), "cpu") {
				parent = jail
			}
			p := place{filepath.Join(parent, name), jail}
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
	{"memory.high", strconv.Itoa(MemoryMax)},
	{"memory.max", strconv.Itoa(MemoryMax + SocketsMax)},
	{"memory.swap.max", "0"},
	{"memory.limit_in_bytes", strconv.Itoa(MemoryMax)},
	{"pids.max", strconv.Itoa(PidsMax)},
}

const (
	idleFile    = "cpu.idle"
	weightFile  = "cpu.weight"
	quotaFile   = "cpu.max"
	socketsFile = "memory.kmem.tcp.limit_in_bytes"
	// unlimited is the value of version 1 for no limit: the largest number of whole pages.
	unlimited = 1<<63 - 1<<16
)

// followed are the files by which a helper beside its jail has the jail's bounds: on version 2 a
// part of its processor time, and the same share where processors are short; on version 1 as much
// memory in buffers of sockets. There memory.limit_in_bytes does not count those
// (Documentation/admin-guide/cgroup-v1/memory.rst, 2.7); on version 2 memory.max does.
var followed = []string{idleFile, quotaFile, weightFile, socketsFile}

// follow returns the bounds that a helper has from its jail, whose groups it is beside. They are
// for all of its groups: each file is in one.
func follow(all []place) (out []bound, err error) {
	for _, p := range all {
		if p.shared() || len(cgroups.Counting(p.jail)) == 0 {
			continue
		}
		idle := false
		for _, file := range followed {
			// An idle group has no weight, and takes none.
			if idle && file == weightFile || !cgroups.CanHave(p.jail, file) {
				continue
			}
			text, err := cgroups.Read(p.jail, file)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			value := strings.TrimSpace(text)
			switch file {
			case idleFile:
				idle = value == "1"
			case quotaFile:
				value = part(value)
			case socketsFile:
				if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= unlimited {
					value = strconv.Itoa(SocketsMax)
				}
			}
			out = append(out, bound{file, value})
		}
	}
	return out, nil
}

// Numbers of a helper's cpu.max, in microseconds: the period, what it has of one even where that is
// more than its part of the jail's, and the kernel's least (kernel/sched/core.c,
// min_cfs_quota_period).
const (
	quotaPeriod = 100000
	leastPart   = quotaPeriod / 10
	minQuota    = 1000
)

// part returns a helper's cpu.max from its jail's: the QuotaPart of it. A helper could hardly begin
// with a part of a small quota. It has a tenth of a processor, or as much as its jail.
func part(of string) string {
	var quota, period int64
	if _, err := fmt.Sscan(of, &quota, &period); err != nil || period <= 0 {
		return of // "max" and the period
	}
	jails := quota * quotaPeriod / period
	return fmt.Sprint(max(jails/QuotaPart, min(jails, leastPart), minQuota), " ", quotaPeriod)
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
