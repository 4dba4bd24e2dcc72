// Package compiler compiles seccomp sections to BPF in pure Go: the inner filter of a jail, which
// the init step inside it loads just before it becomes the jail's program. The kernel runs all
// filters of a process and takes the strictest answer, so the inner filter adds what the first,
// which the delegate compiles with libseccomp from OCI's JSON, cannot:
//
//   - calls by another ABI, x32 among them, end the whole process (libseccomp
//     ends the calling thread);
//   - what only the init step itself needed (seccomp.EntryCalls) is refused again;
//   - the answer is exactly the section's, whatever version of libseccomp and whatever stub of the
//     delegate's made the first.
//
// Numbers that are allowed with any arguments are decided from number and architecture alone, which
// the kernel caches (Linux 5.11): those calls cost nothing.
package compiler

import (
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// Program compiles a profile of package seccomp for a GOARCH (amd64 or arm64);
// with kill, what is not listed ends the process. Errors: an unknown profile or
// architecture.
func Program(profile, arch string, kill bool) ([]bpf.Insn, error) {
	f, err := seccomp.OCI(seccomp.Options{Profile: profile, Arch: arch, Kill: kill})
	if err != nil {
		return nil, err
	}
	return Compile(f)
}

// arches maps the architectures that have a native ABI here.
var arches = map[specs.Arch]struct {
	audit  uint32
	goarch string
}{
	specs.ArchX86_64:  {bpf.ArchX86_64, "amd64"},
	specs.ArchAARCH64: {bpf.ArchAARCH64, "arm64"},
}

// Compile turns a seccomp section for one architecture into BPF that answers with the section's
// actions: as seccomp.OCI and seccomp.Intersect render it, so that calls of other ABIs end the
// process, and no argument rules contradict each other. Where they do the strictest rule that
// matches answers; a refusal on "argument 0 >= 0" answers what no other rule matches. Names that
// the architecture does not have are left out, as delegates do.
//
// Errors: more than one architecture, an action that needs a listener or tracer,
// an unknown action or operator, and a program that the kernel would not load
// (more than 4096 instructions).
func Compile(f *specs.LinuxSeccomp) ([]bpf.Insn, error) {
	if len(f.Architectures) != 1 {
		return nil, fmt.Errorf("seccomp filter for architectures %v: exactly one can be native", f.Architectures)
	}
	arch, ok := arches[f.Architectures[0]]
	if !ok {
		return nil, fmt.Errorf("seccomp filter for architecture %s: only x86_64 and aarch64", f.Architectures[0])
	}
	def, err := verdict(f.DefaultAction, f.DefaultErrnoRet)
	if err != nil {
		return nil, fmt.Errorf("default action: %w", err)
	}
	calls, err := collect(f, arch.goarch)
	if err != nil {
		return nil, err
	}
	a := &assembler{memo: make(map[string]target), rev: make([]bpf.Insn, 0, 512)}
	tree := a.leaves(calls, def, arch.goarch == "amd64")
	kill := verdictTarget(bpf.RetKillProcess)
	a.lead(a.search(tree))
	a.load(0)
	a.jump(jumpEqual, arch.audit, here, kill)
	a.load(4)
	if a.err != nil {
		return nil, a.err
	}
	slices.Reverse(a.rev)
	if len(a.rev) > bpf.MaxInsns {
		return nil, fmt.Errorf("seccomp filter of %d instructions: the kernel takes %d", len(a.rev), bpf.MaxInsns)
	}
	return a.rev, nil
}

// leaf is what answers the numbers from lo up to the next leaf's.
type leaf struct {
	lo uint32
	to target
}

// leaves lays the calls' answers out over all numbers.
func (a *assembler) leaves(calls *[abi.Limit][]rule, def uint32, x32 bool) []leaf {
	out := make([]leaf, 1, 256)
	out[0] = leaf{0, verdictTarget(def)}
	add := func(lo uint32, to target) {
		last := &out[len(out)-1]
		switch {
		case last.lo == lo:
			last.to = to
			if len(out) > 1 && out[len(out)-2].to == to {
				out = out[:len(out)-1]
			}
		case last.to != to:
			out = append(out, leaf{lo, to})
		}
	}
	for nr, rules := range calls {
		if len(rules) == 0 {
			continue
		}
		to := verdictTarget(rules[0].ret)
		if len(rules[0].tests) > 0 {
			to = a.decide(append(rules, rule{ret: def}), accumulator{})
		}
		add(uint32(nr), to)
		add(uint32(nr)+1, verdictTarget(def))
	}
	if x32 {
		// From bit 30 on x32 begins. Bit 31 is in no ABI: such a number does
		// not exist, and -1 is how tracers skip a call.
		add(bpf.X32Bit, verdictTarget(bpf.RetKillProcess))
		add(1<<31, verdictTarget(def))
	}
	return out
}

// search puts a balanced search for the number in front.
func (a *assembler) search(leaves []leaf) target {
	if len(leaves) == 1 {
		return leaves[0].to
	}
	mid := len(leaves) / 2
	right := a.search(leaves[mid:])
	left := a.search(leaves[:mid])
	return a.jump(jumpAtLeast, leaves[mid].lo, right, left)
}

// collect lists a section's rules by the number of the call, in the order in
// which they answer.
func collect(f *specs.LinuxSeccomp, goarch string) (*[abi.Limit][]rule, error) {
	out := new([abi.Limit][]rule)
	for i := range f.Syscalls {
		s := &f.Syscalls[i]
		rules, err := rulesOf(s)
		if err != nil {
			return nil, fmt.Errorf("seccomp rule for %v: %w", s.Names, err)
		}
		for _, name := range s.Names {
			nr, ok := abi.Number(name, goarch)
			switch {
			case !ok:
			case out[nr] == nil:
				out[nr] = slices.Clip(rules) // shared between calls until it grows
			default:
				out[nr] = append(out[nr], rules...)
			}
		}
	}
	for nr, rules := range out {
		if len(rules) > 1 {
			out[nr] = append(make([]rule, 0, len(rules)+1), rules...)
			slices.SortStableFunc(out[nr], func(a, b rule) int { return b.rank - a.rank })
		}
	}
	return out, nil
}
