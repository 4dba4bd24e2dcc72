package check

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/hostfacts"
)

// hierarchy reports which there is, and whether groups can be made in it.
// None is made: one would stay if this were killed.
func hierarchy(e *env) answer {
	var fs unix.Statfs_t
	if err := unix.Statfs(e.cgroup, &fs); err != nil {
		return fail("mount it (`mount -t cgroup2 cgroup2 "+e.cgroup+"`)", "%s: %v", e.cgroup, err)
	}
	c := e.host.Cgroup
	if !c.V2 && !c.Pids && !c.Memory && !c.CPU {
		return fail("mount control groups at "+e.cgroup, "no controller at %s: a jail can use up the host", e.cgroup)
	}
	v := "version 1"
	dir := filepath.Join(e.cgroup, "pids")
	if c.V2 {
		v, dir = "version 2", e.cgroup
	}
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return fail("mount it writable", "%s, but %s: %v", v, dir, err)
	}
	return ok("%s", v)
}

// A limitFact reports whether a limit can be set, and where to look.
type limitFact struct {
	have func(hostfacts.Cgroup) bool
	// file is what a group of version 2 has for it: a controller can be there
	// without (swap accounting, throttling).
	file    string
	without string // what the lack means
	remedy  string
}

var limitFacts = map[string]limitFact{
	"pids": {
		func(c hostfacts.Cgroup) bool { return c.Pids }, "pids.max", "only RLIMIT_NPROC stands against a fork bomb",
		"boot a kernel with CONFIG_CGROUP_PIDS and mount the controller",
	},
	"memory": {
		func(c hostfacts.Cgroup) bool { return c.Memory }, "memory.max", "a jail can use up the host's memory",
		"boot with cgroup_enable=memory",
	},
	"swap": {
		func(c hostfacts.Cgroup) bool { return c.Swap }, "memory.swap.max", "a jail can use up the host's swap",
		"boot with swapaccount=1",
	},
	"cpu": {
		func(c hostfacts.Cgroup) bool { return c.CPU }, "cpu.max", "a jail can use all processors",
		"boot a kernel with CONFIG_CFS_BANDWIDTH and mount the controller",
	},
	"io": {
		func(c hostfacts.Cgroup) bool { return c.IO }, "io.max", "writable directories are as fast as the disk",
		"boot a kernel with CONFIG_BLK_DEV_THROTTLING",
	},
}

// limitOn looks for one limit.
func limitOn(name string) func(*env) answer {
	l := limitFacts[name]
	return func(e *env) answer {
		c := e.host.Cgroup
		if name == "swap" && noSwap("/proc/swaps") && !l.have(c) {
			return ok("not needed: the host has no swap")
		}
		if !l.have(c) {
			return fail(l.remedy, "none: %s", l.without)
		}
		if !c.V2 {
			return ok("can be set")
		}
		found, groups := inChildren(e.cgroup, l.file)
		if groups && !found {
			return fail(l.remedy, "no group has %s: %s", l.file, l.without)
		}
		return ok("can be set")
	}
}

// inChildren reports whether a group directly below root has the file (the root
// itself has none), and whether there are groups at all.
func inChildren(root, file string) (found, groups bool) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return false, false
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		groups = true
		if unix.Access(filepath.Join(root, e.Name(), file), unix.F_OK) == nil {
			return true, true
		}
	}
	return false, groups
}

// noSwap reads /proc/swaps: a header, then one line for each area.
func noSwap(path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && strings.Count(strings.TrimSpace(string(b)), "\n") == 0
}
