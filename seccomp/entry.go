package seccomp

import (
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// entryCalls are the calls that the init step inside a jail makes after the
// delegate has loaded the outer filter, until the step loads the inner filter
// (package compiler) and executes the jail's program. The step is a static Go
// program. The calls of Go's runtime are here too, since an engine's own profile
// may lack them. Sorted by name within a reason.
var entryCalls = [...]group{
	{
		names: []string{"landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self"},
		why:   "puts the jail's Landlock domain on itself",
	},
	{names: []string{"prctl"}, rule: "prctl-entry", why: "loads the inner filter, which limits prctl in the jail"},
	{names: []string{"prlimit64"}, why: "checks the limits, and sets those that no Go program could start under"},
	{names: []string{"sched_setaffinity"}, why: "sets the processors the program may use"},
	{names: []string{"umask"}, why: "sets the process's file mode creation mask"},
	{names: []string{
		"close", "faccessat", "fstat", "getcwd", "getdents64", "newfstatat", "pread64", "read", "readlinkat", "statx", "uname",
		"write",
	}, why: "reads its orders and checks where it is"},
	{names: []string{"openat"}, rule: "openat", why: "opens the places that Landlock leaves open"},
	{names: []string{"fcntl"}, rule: "fcntl", why: "descriptor flags"},
	{names: []string{"madvise", "mmap", "munmap"}, why: "Go's runtime: memory"},
	{names: []string{"clone"}, rule: "clone", why: "Go's runtime: threads"},
	{names: []string{"arch_prctl"}, arch: "amd64", why: "Go's runtime: thread pointer"},
	{
		names: []string{"futex", "getpid", "gettid", "nanosleep", "sched_getaffinity", "sched_yield", "tgkill"},
		why:   "Go's runtime: scheduling",
	},
	{names: []string{"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack"}, why: "Go's runtime: signals"},
	{names: []string{"epoll_create1", "epoll_ctl", "epoll_pwait", "eventfd2"}, why: "Go's runtime: files"},
	{names: []string{"getrandom"}, why: "Go's runtime: seeds"},
	{names: []string{"exit", "exit_group"}, why: "gives up with a message"},
}

// EntryCalls lists what the init step inside a jail needs before it loads the
// inner filter, with reasons, sorted by name. Errors: an unknown architecture.
func EntryCalls(arch string) ([]Entry, error) {
	if _, err := archOf(arch); err != nil {
		return nil, err
	}
	return entriesOf("entry calls", entryCalls[:], arch)
}

// WithEntry returns a section that permits the calls of f and the entry calls, and
// the names of the entry calls that f lacks, sorted. The returned section is the
// outer filter, for the delegate. compiler.Compile makes the inner filter of f,
// which refuses the added calls again before the jail's program runs: a call that
// passes both filters passes f. No added call makes a namespace, mounts, or
// reaches another process.
//
// An entry call that f allows for some arguments only, or refuses with an error
// of its own, is allowed in the result as far as its argument rule goes. f does
// not change.
func WithEntry(f *specs.LinuxSeccomp) (*specs.LinuxSeccomp, []string) {
	if f == nil {
		return nil, nil
	}
	// Only the rules for entry calls need to be looked at.
	var wanted []call
	for _, g := range entryCalls {
		if g.arch == "amd64" && !slices.Contains(f.Architectures, specs.ArchX86_64) {
			continue
		}
		c := call{allow: always}
		if r, ok := ruleOf(g.rule); ok {
			c = r.call(false)
		}
		for _, c.name = range g.names {
			wanted = append(wanted, c)
		}
	}
	slices.SortFunc(wanted, func(a, b call) int { return strings.Compare(a.name, b.name) })
	find := func(name string) (int, bool) {
		return slices.BinarySearchFunc(wanted, name, func(c call, n string) int { return strings.Compare(c.name, n) })
	}
	few := specs.LinuxSeccomp{DefaultAction: f.DefaultAction, DefaultErrnoRet: f.DefaultErrnoRet}
	for _, s := range f.Syscalls {
		names := make([]string, 0, len(s.Names))
		for _, n := range s.Names {
			if _, ok := find(n); ok {
				names = append(names, n)
			}
		}
		if s.Names = names; len(names) > 0 {
			few.Syscalls = append(few.Syscalls, s)
		}
	}
	spec := read(&few)
	add := filter{}
	var added []string
	for _, c := range wanted {
		r := spec.region(c.name)
		passes, _ := without(r.allow, r.refuse)
		if slices.ContainsFunc(c.allow, func(a args) bool { return !covered(a, passes) }) {
			add.calls = append(add.calls, c)
			added = append(added, c.name)
		}
	}
	if len(added) == 0 {
		return f, nil
	}
	out := *f
	out.Syscalls = make([]specs.LinuxSyscall, 0, len(f.Syscalls)+4)
	for _, s := range f.Syscalls {
		s.Names = slices.DeleteFunc(slices.Clone(s.Names), func(n string) bool {
			_, ok := slices.BinarySearch(added, n)
			return ok
		})
		if len(s.Names) > 0 {
			out.Syscalls = append(out.Syscalls, s)
		}
	}
	out.Syscalls = append(out.Syscalls, add.oci().Syscalls...)
	return &out, added
}
