package journal

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentjail.dev/runtime/linux/cgroups"
)

// A counter is a number of a control group that counts how often a limit was met.
type counter struct {
	controller string // whose hierarchy of version 1 has the file; version 2 is "" there
	file, key  string // key is the first word of the line; "" is the whole file
	kind       string
}

var counters = []counter{
	{"", "memory.events", "oom_kill", "limit.oom"},
	{"", "memory.events", "max", "limit.memory"},
	{"", "memory.events", "high", "limit.high"},
	{"", "pids.events", "max", "limit.pids"},
	{"", "cpu.stat", "nr_throttled", "limit.cpu"},
	{"memory", "memory.oom_control", "oom_kill", "limit.oom"},
	{"memory", "memory.failcnt", "", "limit.memory"},
	{"pids", "pids.events", "max", "limit.pids"},
	{"cpu", "cpu.stat", "nr_throttled", "limit.cpu"},
}

// limitFiles are the limits that were met, by kind.
var limitFiles = map[string][]string{
	"limit.oom": {"memory.max", "memory.limit_in_bytes"}, "limit.memory": {"memory.max", "memory.limit_in_bytes"},
	"limit.high": {"memory.high"}, "limit.pids": {"pids.max"},
}

// Counters reads from a jail's control group directories, of either version, which limits were met and how often.
func Counters(dirs []string) []Event {
	var out []Event
	now := At(time.Now())
	for _, dir := range dirs {
		files := map[string]string{}
		v1 := controllersOf(dir)
		for _, c := range counters {
			if !strings.Contains(v1, ","+c.controller+",") {
				continue
			}
			text, known := files[c.file]
			if !known {
				text, _ = cgroups.Read(dir, c.file)
				files[c.file] = text
			}
			n := count(text, c.key)
			e := Event{Kind: c.kind, Time: now, Source: SourceCgroup, Count: n}
			if n == 0 && c.kind == "limit.pids" && full(dir, "pids.current", "pids.max") {
				// New kernels with version 1 do not count.
				e.Count, e.Reason = 1, "there are as many as may be"
			}
			if e.Count == 0 {
				continue
			}
			for _, name := range limitFiles[c.kind] {
				if text, err := cgroups.Read(dir, name); err == nil {
					e.Limit = strings.TrimSpace(text)
				}
			}
			out = append(out, e)
		}
	}
	return out
}

// full says whether a group uses all that it may.
func full(dir, current, most string) bool {
	now, err := cgroups.Read(dir, current)
	top, terr := cgroups.Read(dir, most)
	n, m := count(now, ""), count(top, "")
	return err == nil && terr == nil && m > 0 && n >= m
}

// controllersOf are those of the hierarchy of version 1 that a group is in, between commas; those of version 2 are ",,".
func controllersOf(dir string) string {
	rel, err := filepath.Rel(cgroups.Root, dir)
	first, _, _ := strings.Cut(rel, "/")
	if err != nil {
		return ",,"
	}
	for _, name := range strings.Split(first, ",") {
		if v1Controllers[name] {
			return "," + first + ","
		}
	}
	return ",,"
}

// v1Controllers are the names of hierarchies of version 1 (cgroups(7)).
var v1Controllers = map[string]bool{
	"memory": true, "pids": true, "cpu": true, "cpuacct": true, "cpuset": true, "blkio": true, "devices": true, "freezer": true,
	"hugetlb": true, "net_cls": true, "net_prio": true, "perf_event": true, "rdma": true, "misc": true, "systemd": true,
}

// count finds a number in a file of lines of a word and a number.
func count(text, key string) uint64 {
	if key == "" {
		n, _ := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		return n
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key+" "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
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
			if g.Path != "/" { // the host's root group counts everybody
				out = append(out, filepath.Join(root, g.Path))
			}
		}
	}
	return out, nil
}
