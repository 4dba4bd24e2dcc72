// Package learn makes a profile for known work from runs of that work: from their system calls with
// the arguments, the names that they connected to, and their use of the limits. A person can read
// and change the profile; each line has its reason. It lets through less than the profile of the
// runs, never more.
//
// The package is pure: package record counts the calls, and the caller gathers the rest.
package learn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/observe/learn/record"
	"agentjail.dev/runtime/spec/lists"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// A Run is what is known of one run.
type Run struct {
	ID   string
	Seen []record.Seen
	// Lost reports how often there was no room to count a call, and Late that the jail ran before
	// it was looked at.
	Lost uint64
	Late bool
	// Filter is the inner filter that the jail had, for what it refused.
	Filter []bpf.Insn
	// Reached and Refused are names of its network, as NAME:PORT; ByName reports that its network
	// is by name.
	Reached, Refused []string
	ByName           bool
	// Files are what was in its layer, as of `agentjail diff`; nil is unknown.
	Files []string
	// Used is the most that was used of limits; 0 is unknown.
	Used Used
}

// Used is how much of the limits was used, at most.
type Used struct {
	Memory uint64 `json:"memory,omitempty"`
	Pids   uint64 `json:"pids,omitempty"`
}

// Options report what the runs were under.
type Options struct {
	// Name is that of the new profile.
	Name   string
	Policy policy.Policy
	Arch   string
	// Work describes in a few words what ran.
	Work string
}

// Call is a system call of the runs.
type Call struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
	// When are the conditions that the arguments met, where that is not all that the profile lets
	// pass.
	When []string `json:"when,omitempty"`
	Why  string   `json:"why,omitempty"`
	// Errno is the errno of a refused call.
	Errno string `json:"errno,omitempty"`
}

// Result is what was learned.
type Result struct {
	Name    string `json:"name"`
	Profile string `json:"profile"` // the one that it narrows
	Work    string `json:"work"`
	Runs    int    `json:"runs"`
	// Used are the calls that passed, Unused what the profile has beyond them, and Refused what the
	// filters refused.
	Used    []Call   `json:"used"`
	Unused  []string `json:"unused"`
	Refused []Call   `json:"refused,omitempty"`
	// Names were connected to, and NotNames refused.
	Names    []string `json:"names,omitempty"`
	NotNames []string `json:"refusedNames,omitempty"`
	Files    []string `json:"files,omitempty"`
	Peaks    Used     `json:"peaks"`
	Limits   Used     `json:"limits"`
	Warnings []string `json:"warnings,omitempty"`
	ByName   bool     `json:"byName"`
	// List is for policy's seccomp.only.
	List *seccomp.List `json:"list"`
}

// Masks are the bits of arguments by which calls are distinguished, by number: those that a profile
// looks at.
func Masks(profile, arch string) map[uint32][6]uint64 {
	out := map[uint32][6]uint64{}
	for _, name := range abi.Names(arch) {
		if nr, ok := abi.Number(name, arch); ok {
			if m := seccomp.Looked(profile, name, arch); m != ([6]uint64{}) {
				out[nr] = m
			}
		}
	}
	return out
}

// timing are calls that depend on the timing of threads: the same work makes them in one run and
// not in the next.
var timing = []string{
	"brk", "clock_nanosleep", "exit", "futex", "getpid", "getrandom", "gettid", "kill", "madvise", "mremap", "munmap", "nanosleep",
	"poll", "ppoll",
	"restart_syscall", "rt_sigreturn", "sched_yield", "tgkill", "wait4",
}

// Make makes a profile of runs.
func Make(o Options, runs ...Run) (*Result, error) {
	r := &Result{Name: o.Name, Profile: o.Policy.Seccomp.Profile, Work: o.Work, Runs: len(runs), Unused: []string{}}
	entries, err := seccomp.Entries(r.Profile, o.Arch)
	if err != nil {
		return nil, err
	}
	used := map[string]*use{}
	refused := map[string]Call{}
	for _, run := range runs {
		if err := r.add(o, run, used, refused); err != nil {
			return nil, err
		}
	}
	for _, e := range entries {
		if e.Errno != "" {
			continue // a list has no entry for a refused call
		}
		u := used[e.Name]
		switch {
		case u != nil:
			r.Used = append(r.Used, u.call(e, r.Profile, o.Arch))
		case slices.Contains(seccomp.Needed(), e.Name):
		case slices.Contains(timing, e.Name):
			r.Used = append(r.Used, Call{Name: e.Name, Why: "depends on timing"})
		default:
			r.Unused = append(r.Unused, e.Name)
		}
	}
	r.Refused = slices.SortedFunc(maps.Values(refused), func(a, b Call) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	for _, list := range []*[]string{&r.Names, &r.NotNames, &r.Files} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	r.Limits = limits(o.Policy.Limits, r.Peaks)
	r.List = r.list()
	return r, nil
}

// use is how a call was used.
type use struct {
	count uint64
	args  [][6]uint64
}

// add takes one run in.
func (r *Result) add(o Options, run Run, used map[string]*use, refused map[string]Call) error {
	for _, s := range run.Seen {
		name := abi.Name(s.Number, o.Arch)
		switch {
		case name == "":
		case s.Errno == 0:
			u := used[name]
			if u == nil {
				u = new(use)
				used[name] = u
			}
			u.count += s.Count
			u.args = append(u.args, s.Args)
		default:
			if err := r.refusal(o, run, s, name, refused); err != nil {
				return err
			}
		}
	}
	if run.Lost > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: there was no room to count %d calls: arguments of some are missing", run.ID, run.Lost))
	}
	if run.Late {
		r.Warnings = append(r.Warnings, run.ID+" ran before it was looked at: what it did then is not known")
	}
	if len(run.Seen) == 0 {
		r.Warnings = append(r.Warnings, run.ID+": no system call was seen")
	}
	r.Names, r.NotNames, r.Files = append(r.Names, run.Reached...), append(r.NotNames, run.Refused...), append(r.Files, run.Files...)
	r.ByName = r.ByName || run.ByName
	r.Peaks.Memory, r.Peaks.Pids = max(r.Peaks.Memory, run.Used.Memory), max(r.Peaks.Pids, run.Used.Pids)
	return nil
}

// refusal counts a failed call that the filter refused: the kernel's own failures are not of
// interest.
func (r *Result) refusal(o Options, run Run, s record.Seen, name string, refused map[string]Call) error {
	if run.Filter == nil {
		return nil
	}
	v, err := bpf.Run(run.Filter, &bpf.Data{NR: s.Number, Arch: bpf.AuditArch(o.Arch), Args: s.Args})
	if err != nil {
		return err
	}
	if v&bpf.RetActionFull != bpf.RetErrno || v&bpf.RetData != s.Errno {
		return nil
	}
	c, known := refused[name]
	if !known { // its first errno stands for all
		c = Call{Name: name, Errno: seccomp.ErrnoName(s.Errno)}
	}
	c.Count += s.Count
	refused[name] = c
	return nil
}

// call is a used call, with the conditions that its arguments met.
func (u *use) call(e seccomp.Entry, profile, arch string) Call {
	c := Call{Name: e.Name, Count: u.count, Why: e.Why}
	if slices.Contains(timing, e.Name) || slices.Contains(seccomp.Needed(), e.Name) {
		return c
	}
	ways := seccomp.Ways(profile, e.Name, arch)
	for _, args := range u.args {
		some := false
		for _, w := range ways {
			if w.Has(args) {
				some, c.When = true, lists.Union(c.When, w.When)
			}
		}
		if !some {
			c.When = nil // by no alternative that is known: all stay
			return c
		}
	}
	if len(c.When) == len(ways) {
		c.When = nil
	}
	slices.Sort(c.When)
	return c
}

// list is what was used, as a list of policy's: calls of one reason together.
func (r *Result) list() *seccomp.List {
	l := &seccomp.List{About: fmt.Sprintf("learned from %s of %s, of profile %s: %d of its calls", printable.Count(r.Runs, "run"),
		r.Work, r.Profile, len(r.Used))}
	at := map[string]int{}
	for _, c := range r.Used {
		if len(c.When) > 0 {
			l.Allow = append(l.Allow, seccomp.ListGroup{
				Names: []string{c.Name}, When: c.When,
				Why: fmt.Sprintf("%s: %s", c.Why, printable.Count(int(c.Count), "call")),
			})
			continue
		}
		i, ok := at[c.Why]
		if !ok {
			i = len(l.Allow)
			at[c.Why] = i
			l.Allow = append(l.Allow, seccomp.ListGroup{Why: c.Why})
		}
		l.Allow[i].Names = append(l.Allow[i].Names, c.Name)
	}
	for i := range l.Allow {
		if g := &l.Allow[i]; len(g.When) == 0 && g.Why != "depends on timing" {
			var n uint64
			for _, c := range r.Used {
				if slices.Contains(g.Names, c.Name) {
					n += c.Count
				}
			}
			g.Why = fmt.Sprintf("%s: %s", g.Why, printable.Count(int(n), "call"))
		}
	}
	return l
}

// limits are bounds with room above what was used, and never above policy's; 0 leaves it as it is.
func limits(have policy.Limits, used Used) Used {
	var out Used
	const step = 64 << 20
	if m := (used.Memory*3/2 + step - 1) / step * step; used.Memory > 0 && (have.Memory == 0 || m < uint64(have.Memory)) {
		out.Memory = m
	}
	if p := max(32, used.Pids*2); used.Pids > 0 && (have.Pids == 0 || p < uint64(have.Pids)) {
		out.Pids = p
	}
	return out
}

// words joins names, of which at most most are printed.
func words(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
