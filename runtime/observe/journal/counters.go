package journal

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentjail.dev/runtime/kernel/cgroups"
)

// A counter is a number of a control group that counts how often a limit was met.
type counter struct {
	controller string // whose hierarchy of version 1 has the file; version 2 is "" there
	file, key  string // key is the first word of the line; "" is the whole file
	kind       Kind
}

var counters = []counter{
	{"", "memory.events", "oom_kill", LimitOOM},
	{"", "memory.events", "max", LimitMemory},
	{"", "memory.events", "high", LimitHigh},
	{"", "pids.events", "max", LimitPids},
	{"", "cpu.stat", "nr_throttled", LimitCPU},
	{"memory", "memory.oom_control", "oom_kill", LimitOOM},
	{"memory", "memory.failcnt", "", LimitMemory},
	{"pids", "pids.events", "max", LimitPids},
	{"cpu", "cpu.stat", "nr_throttled", LimitCPU},
}

// limitFiles are the limits that were met, by kind.
var limitFiles = map[Kind][]string{
	LimitOOM: {"memory.max", "memory.limit_in_bytes"}, LimitMemory: {"memory.max", "memory.limit_in_bytes"},
	LimitHigh: {"memory.high"}, LimitPids: {"pids.max"},
}

// Counters reports which limits of a jail's control group directories, of either version, were met
// and how often. read is cgroups.Read, or a reader that caches. ended reports that the jail has
// ended: it counted, but nothing of it is at a limit at the moment.
func Counters(dirs []string, ended bool, read func(dir, file string) (string, error)) []Event {
	var out []Event
	now := At(time.Now())
	for _, dir := range dirs {
		counting := cgroups.Counting(dir)
		for _, c := range counters {
			if !slices.Contains(counting, c.controller) {
				continue
			}
			text, _ := read(dir, c.file)
			n, _ := cgroups.Number(text, c.key)
			e := Event{Kind: c.kind, Time: now, Source: SourceCgroup, Count: n}
			if n == 0 && !ended && c.kind == LimitPids && full(read, dir, "pids.current", "pids.max") {
				// New kernels with version 1 do not count.
				e.Count, e.Reason = 1, "there are as many as may be"
			}
			if e.Count == 0 {
				continue
			}
			for _, name := range limitFiles[c.kind] {
				if text, err := read(dir, name); err == nil {
					e.Limit = strings.TrimSpace(text)
				}
			}
			out = append(out, e)
		}
	}
	return out
}

// full reports whether a group uses all that it may.
func full(read func(dir, file string) (string, error), dir, current, most string) bool {
	now, err := read(dir, current)
	top, terr := read(dir, most)
	n, _ := cgroups.Number(now, "")
	m, _ := cgroups.Number(top, "")
	return err == nil && terr == nil && m > 0 && n >= m
}

// Groups are the control group directories of a process.
func Groups(pid int) ([]string, error) {
	groups, err := cgroups.Of(fmt.Sprint(pid))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, g := range groups {
		for _, root := range g.Mounts(cgroups.Root) {
			if g.Path != "/" { // the host's root group counts all processes
				out = append(out, filepath.Join(root, g.Path))
			}
		}
	}
	return out, nil
}
