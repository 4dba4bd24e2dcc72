// Package verify shows what compiled filters do not let through. It looks at
// BPF programs alone, not at what they were made from: those that package exact
// compiles, those that libseccomp makes of a spec (package prove), or those that
// the kernel holds for a running process (package loaded).
//
// Claims are decided by exploring the programs with the arguments unknown, so
// that they hold for all of them, not for samples.
package verify

import (
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// Result is one claim about compiled filters.
type Result struct {
	// Claim reports what must hold, in words.
	Claim string `json:"claim"`
	// Holds is true when it was shown for every number and argument the
	// claim speaks of.
	Holds bool `json:"holds"`
	// Detail is a count, or what speaks against the claim.
	Detail string `json:"detail,omitempty"`
}

// Profile checks what must hold of the filters of a process, of which the kernel takes the
// strictest answer: that nothing passes but what the profile lists, no more calls than the
// profile's budget, no filter of a program's own and no tracing but under the profiles that are for
// those, and what must hold of any jail's filters: other ABIs, io_uring, namespaces, dangerous
// calls, arguments, the entry points of public kernel exploits, and what no limit of a jail counts.
// arch is a GOARCH: amd64 or arm64.
//
// Errors: an unknown profile or architecture, no filter, and a program that the
// kernel would not have loaded. A claim that does not hold is no error but a
// result.
func Profile(progs [][]bpf.Insn, profile, arch string) ([]Result, error) {
	p, err := newStack(progs, arch)
	if err != nil {
		return nil, err
	}
	entries, err := seccomp.Entries(profile, arch)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Errno == "" {
			names = append(names, e.Name)
		}
	}
	more := []claim{
		func() (Result, error) { return p.unlisted(names) },
		func() (Result, error) { return p.count(seccomp.Budget(profile)) },
	}
	if !seccomp.LoadsFilters(profile) {
		more = append(more, p.noFilters)
	}
	if !seccomp.Traces(profile) {
		more = append(more, p.noTracing)
	}
	return p.all(more...)
}

// First checks what must hold of the outer filter by itself, while the init step
// runs under it: what Profile does, but for what the inner filter alone looks
// at. That is the limits that the step sets, and the arguments of calls of every
// moment. Errors as for Profile.
func First(progs [][]bpf.Insn, arch string) ([]Result, error) {
	p, err := newStack(progs, arch)
	if err != nil {
		return nil, err
	}
	return each(p.always())
}

// Merge keeps one result a claim of results of the same claims about several
// filters: the first that does not hold.
func Merge(a, b []Result) []Result {
	if a == nil {
		return b
	}
	for i := range a {
		if a[i].Holds && !b[i].Holds {
			a[i] = b[i]
		}
	}
	return a
}

// stack is the filters of a process.
type stack struct {
	progs [][]bpf.Insn
	arch  string
	audit uint32
}

func newStack(progs [][]bpf.Insn, arch string) (*stack, error) {
	audit := bpf.AuditArch(arch)
	if audit == 0 {
		return nil, fmt.Errorf("architecture %q is not one of amd64 and arm64", arch)
	}
	return &stack{progs, arch, audit}, nil
}

// claim looks for what speaks against one.
type claim = func() (Result, error)

// always are the claims that hold of each filter of a jail.
func (p *stack) always() []claim {
	return []claim{
		p.foreign, p.x32, p.ioUring, p.namespaces, p.dangerous, p.families, p.raw, p.setID, p.terminal, p.options, p.oob, p.prctl,
		p.highBits, p.entries,
		p.cpuClocks, p.buffers, p.attributes, p.priorities, p.filterFlags, p.tracing,
	}
}

// all checks the claims given and the general ones.
func (p *stack) all(more ...claim) ([]Result, error) {
	return each(slices.Concat(more, p.always(), []claim{p.coreLimit, p.hugePages, p.requeue, p.merging}))
}

func each(claims []claim) ([]Result, error) {
	var out []Result
	for _, claim := range claims {
		r, err := claim()
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// result is a claim with what speaks against it.
func result(claim string, against []string) (Result, error) {
	if len(against) > 8 {
		against = append(against[:8:8], "…")
	}
	return Result{Claim: claim, Holds: len(against) == 0, Detail: strings.Join(against, ", ")}, nil
}

// passes reports whether some call of c may get through every filter. If it returns false, no call
// does.
func (p *stack) passes(c bpf.Partial) (bool, error) {
	for _, prog := range p.progs {
		ok, err := bpf.Passes(prog, c)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// kills reports whether some filter ends the process or thread on every call of c.
func (p *stack) kills(c bpf.Partial) (bool, error) {
	for _, prog := range p.progs {
		v, err := bpf.Verdicts(prog, c)
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(v, func(x uint32) bool {
			return x&bpf.RetActionFull != bpf.RetKillProcess && x&bpf.RetActionFull != bpf.RetKillThread
		}) {
			return true, nil
		}
	}
	return false, nil
}

// call is a call by name with unknown arguments. ok is false when the
// architecture has no such call.
func (p *stack) call(name string) (c bpf.Partial, ok bool) {
	nr, ok := abi.Number(name, p.arch)
	return bpf.Call(p.audit, nr), ok
}

// never lists those of the calls that pass for some arguments that fit.
func (p *stack) never(names []string, with ...known) ([]string, error) {
	var against []string
	for _, n := range names {
		c, ok := p.call(n)
		if !ok {
			continue
		}
		for _, k := range with {
			c = c.With(k.arg, uint64(k.mask), uint64(k.value))
		}
		passes, err := p.passes(c)
		if err != nil {
			return nil, fmt.Errorf("exploring %s: %w", n, err)
		}
		if passes {
			against = append(against, fmt.Sprintf("%s passes%s", n, describe(with)))
		}
	}
	return against, nil
}

// known is what is known of the low 32 bits of an argument; the high ones are
// anything, which is how a 64-bit comparison would be dodged.
type known struct {
	arg         int
	mask, value uint32
}

func describe(with []known) string {
	var b strings.Builder
	for _, k := range with {
		fmt.Fprintf(&b, " with argument %d & %#x == %#x", k.arg, k.mask, k.value)
	}
	return b.String()
}
