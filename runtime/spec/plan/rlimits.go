package plan

import "agentjail.dev/runtime/spec/policy"

// CoreOff is the limit on core files of a jail's processes, soft and hard, in
// bytes. With it a crash writes none, and starts no program either: where
// core_pattern is a pipe, the kernel looks at this one value only (core(5);
// fs/coredump.c, coredump_pipe). The program would be the host's, run as its root
// for every crash in a jail and fed with its memory.
const CoreOff = 1

// fixed is a bound that policy cannot change.
func fixed(v uint64) func(policy.Limits) (uint64, bool) {
	return func(policy.Limits) (uint64, bool) { return v, true }
}

// rlimits are the bounds in the order of their names. value reads one from policy,
// and ok reports whether there is one. Of an exact one the value is the limit itself,
// soft and hard.
var rlimits = []struct {
	name  string
	why   string
	value func(policy.Limits) (v uint64, ok bool)
	exact bool
}{
	{"RLIMIT_CORE", "a crash writes no memory image into a workspace, and starts no program of the host", fixed(CoreOff), true},
	{"RLIMIT_MEMLOCK", "locked memory cannot be reclaimed", func(l policy.Limits) (uint64, bool) {
		return uint64(l.MemLock), l.MemLock > 0
	}, false},
	{"RLIMIT_MSGQUEUE", "POSIX message queues are kernel memory", fixed(0), false},
	{"RLIMIT_NICE", "a jail does not go before the host's own processes", fixed(0), false},
	{"RLIMIT_NOFILE", "open files are kernel memory", func(l policy.Limits) (uint64, bool) { return l.NoFile, l.NoFile > 0 }, false},
	// One more than the group's: the kernel checks this bound first (copy_process), and does not
	// report what it refuses by it.
	{"RLIMIT_NPROC", "a second protection behind the pids control group", func(l policy.Limits) (uint64, bool) {
		return uint64(l.Pids) + 1, l.Pids > 0
	}, false},
	{"RLIMIT_RTPRIO", "real-time scheduling can starve the host", fixed(0), false},
	{"RLIMIT_SIGPENDING", "queued signals are kernel memory", fixed(4096), false},
}

// Rlimit is the bound on one resource limit of a jail's processes (getrlimit(2)).
type Rlimit struct {
	Name string // as in the spec: RLIMIT_NOFILE
	Max  uint64 // of the hard limit, in the limit's own unit
	// Exact reports that soft and hard limit are Max, not only at most that.
	Exact bool
	Why   string
}

// Rlimits are the bounds that hold under a policy, by name.
func Rlimits(l policy.Limits) []Rlimit {
	var out []Rlimit
	for _, r := range rlimits {
		if v, ok := r.value(l); ok {
			out = append(out, Rlimit{r.name, v, r.exact, r.why})
		}
	}
	return out
}

// RlimitBounds are the highest hard limits of a jail's processes, by the spec's
// names (RLIMIT_NOFILE).
func RlimitBounds(l policy.Limits) map[string]uint64 {
	out := map[string]uint64{}
	for _, r := range Rlimits(l) {
		out[r.Name] = r.Max
	}
	return out
}
