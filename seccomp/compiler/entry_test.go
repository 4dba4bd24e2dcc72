package compiler

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// incoming are filters of engines: what the init step needs is missing in some.
func incoming() map[string]*specs.LinuxSeccomp {
	one := uint(1)
	few := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: &one, Syscalls: []specs.LinuxSyscall{
		{Names: []string{"read", "write", "execve", "exit_group", "brk", "openat", "close"}, Action: specs.ActAllow},
		{Names: []string{"prctl"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{{Index: 0, Value: 15, Op: specs.OpEqualTo}}},
	}}
	no := &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{
		{Names: []string{"futex"}, Action: specs.ActKillProcess},
		{Names: []string{"mmap"}, Action: specs.ActErrno, ErrnoRet: &one, Args: []specs.LinuxSeccompArg{{Index: 2, Value: 6, ValueTwo: 6, Op: specs.OpMaskedEqual}}},
		{Names: []string{"landlock_restrict_self", "prctl"}, Action: specs.ActErrno, ErrnoRet: &one},
	}}
	kills := &specs.LinuxSeccomp{DefaultAction: specs.ActKillProcess, Syscalls: few.Syscalls}
	return map[string]*specs.LinuxSeccomp{"none": nil, "few calls": few, "all but": no, "kills": kills}
}

// What the delegate's filter lets pass for the init step, that step's own
// filter takes away again: together they are the jail's filter. The first is
// compiled here too; package prove does the same with libseccomp.
func TestEntryTakenAway(t *testing.T) {
	each(t, func(t *testing.T, ours *specs.LinuxSeccomp, _, goarch string, kill bool) {
		audit := arches[ours.Architectures[0]].audit
		for name, in := range incoming() {
			s, _ := seccomp.Intersect(ours, in)
			wide, added := seccomp.WithEntry(s)
			if again, none := seccomp.WithEntry(wide); len(none) > 0 || !reflect.DeepEqual(again, wide) {
				t.Errorf("%s: added twice: %v", name, none)
			}
			first, second := compile(t, wide), compile(t, s)
			entries, err := seccomp.EntryCalls(goarch)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				nr, ok := abi.Number(e.Name, goarch)
				if !ok || e.Why == "" {
					t.Fatalf("%s: %+v", name, e)
				}
				if e.Rule == "" && !bpf.Constant(first, audit, nr) {
					t.Errorf("%s: the init step cannot call %s", name, e.Name)
				}
			}
			for call, args := range map[string][6]uint64{
				"prctl": {22, 2}, "openat": {0, 0, 0o2000000, 0}, "clone": {0x50f00}, "fcntl": {0, 1},
			} {
				nr, _ := abi.Number(call, goarch)
				if v := run(t, first, &bpf.Data{NR: nr, Arch: audit, Args: args}); v != bpf.RetAllow {
					t.Errorf("%s: the init step's %s%v gets %#x", name, call, args, v)
				}
			}
			r := rand.New(rand.NewPCG(5, 6))
			taken := 0
			for _, call := range abi.Names(goarch) {
				nr, _ := abi.Number(call, goarch)
				for range 30 {
					d := &bpf.Data{NR: nr, Arch: audit, Args: arguments(r, wide, call)}
					got, err := bpf.Stacked([][]bpf.Insn{first, second}, d)
					if want := decides(s, call, d.Args); err != nil || got != want {
						t.Fatalf("%s: %s%#x: %#x, %v; the jail's filter states %#x", name, call, d.Args, got, err, want)
					}
					if v := run(t, first, d); v == bpf.RetAllow && got != v {
						taken++
						if !slices.Contains(added, call) {
							t.Fatalf("%s: %s%#x passes the outer filter and was not added", name, call, d.Args)
						}
					}
				}
			}
			if taken == 0 && len(added) > 0 {
				t.Errorf("%s: %v was added, and nothing taken away", name, added)
			}
		}
	})
}

// Every profile has all that the init step needs but loading its filter, setting all limits, and
// pinning. Calls of every moment are looked at by the inner filter alone: in the first they are
// answered from the kernel's bitmap.
func TestEntryAdds(t *testing.T) {
	for profile, want := range map[string][]string{
		"default": {"futex", "madvise", "mmap", "prctl", "prlimit64", "sched_setaffinity"},
		"server":  {"futex", "madvise", "mmap", "prctl", "prlimit64"},
		"debug":   {"futex", "madvise", "mmap", "prctl", "prlimit64", "sched_setaffinity"},
		"tools":   {"futex", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "madvise", "mmap", "prctl", "prlimit64", "sched_setaffinity"},
		"strict": {
			"futex", "getrandom", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "madvise", "mmap",
			"prctl", "prlimit64", "sched_getaffinity", "sched_setaffinity", "sched_yield",
		},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			s, err := seccomp.OCI(seccomp.Options{Profile: profile, Arch: arch})
			if err != nil {
				t.Fatal(err)
			}
			same := *s
			same.Syscalls = slices.Clone(s.Syscalls)
			if _, added := seccomp.WithEntry(s); !slices.Equal(added, want) {
				t.Errorf("%s %s: %v, want %v", profile, arch, added, want)
			}
			if !reflect.DeepEqual(*s, same) {
				t.Errorf("%s %s: the given section was changed", profile, arch)
			}
		}
	}
	if s, added := seccomp.WithEntry(nil); s != nil || added != nil {
		t.Error("no section: something is added")
	}
	if _, err := seccomp.EntryCalls("riscv64"); err == nil {
		t.Error("riscv64: no error")
	}
}
