// Package verify shows what compiled filters do not let through. It looks at
// BPF programs alone, not at what they were made from: those of package
// compiler, those that libseccomp makes of a spec (package prove), or those that
// the kernel holds for a running process (package readback).
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
	p, err := newStack(progs, profile, arch)
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
		func(c *check) string { return c.unlisted(names) },
		func(c *check) string { return c.count(seccomp.Budget(profile)) },
	}
	if !seccomp.LoadsFilters(profile) {
		more = append(more, (*check).noFilters)
	}
	if !seccomp.Traces(profile) {
		more = append(more, (*check).noTracing)
	}
	return p.all(more...)
}

// First checks what must hold of the outer filter by itself, while the init step runs under it:
// what Profile does, but for the checks of the inner filter alone: of the limits that the step
// sets, and of the arguments of calls of every moment. Errors as for Profile.
func First(progs [][]bpf.Insn, profile, arch string) ([]Result, error) {
	p, err := newStack(progs, profile, arch)
	if err != nil {
		return nil, err
	}
	return p.each(always)
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
	// setGID reports that set-group-ID bits may pass (seccomp.SetGID).
	setGID bool
}

func newStack(progs [][]bpf.Insn, profile, arch string) (*stack, error) {
	audit := bpf.AuditArch(arch)
	if audit == 0 {
		return nil, fmt.Errorf("architecture %q is not one of amd64 and arm64", arch)
	}
	return &stack{progs, arch, audit, strings.HasSuffix(profile, seccomp.SetGID)}, nil
}

// A check looks for what speaks against one claim. After an error it looks for nothing more.
type check struct {
	*stack
	against []string
	detail  string // where the claim holds
	err     error
}

// claim does a check and returns the claim in words.
type claim = func(*check) string

// always are the claims that hold of each filter of a jail.
var always = []claim{
	(*check).foreign, (*check).x32, (*check).ioUring, (*check).namespaces, (*check).dangerous, (*check).families, (*check).raw,
	(*check).setID, (*check).terminal, (*check).options, (*check).oob, (*check).prctl, (*check).highBits, (*check).entries,
	(*check).cpuClocks, (*check).buffers, (*check).attributes, (*check).priorities, (*check).filterFlags, (*check).tracing,
}

// all checks the claims given and the general ones.
func (p *stack) all(more ...claim) ([]Result, error) {
	return p.each(slices.Concat(more, always, []claim{(*check).coreLimit, (*check).hugePages, (*check).requeue, (*check).merging}))
}

func (p *stack) each(claims []claim) ([]Result, error) {
	var out []Result
	for _, claim := range claims {
		c := &check{stack: p}
		r := Result{Claim: claim(c), Holds: len(c.against) == 0, Detail: c.detail}
		if c.err != nil {
			return nil, c.err
		}
		if !r.Holds {
			if len(c.against) > 8 {
				c.against = append(c.against[:8], "…")
			}
			r.Detail = strings.Join(c.against, ", ")
		}
		out = append(out, r)
	}
	return out, nil
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

// known is what is known of an argument.
type known struct {
	arg         int
	mask, value uint64
}

// low is all of an argument that the kernel reads as an int. The high bits stay unknown, since a
// 64-bit comparison would be dodged by them.
const low = 1<<32 - 1

// never finds those of the calls that pass for some arguments that fit.
func (c *check) never(names []string, with ...known) {
	var what []string
	for _, k := range with {
		what = append(what, fmt.Sprintf("argument %d & %#x == %#x", k.arg, k.mask, k.value))
	}
	for _, name := range names {
		c.neverWith(name, strings.Join(what, " and "), with...)
	}
}

// neverWith is never for one call, whose arguments are described by what.
func (c *check) neverWith(name, what string, with ...known) {
	call, ok := c.call(name)
	if !ok || c.err != nil {
		return
	}
	for _, k := range with {
		call = call.With(k.arg, k.mask, k.value)
	}
	if what != "" {
		what = " with " + what
	}
	if c.may(name, call) {
		c.against = append(c.against, name+" passes"+what)
	}
}

// may is passes for a call with a name or a number, and keeps the error.
func (c *check) may(call any, with bpf.Partial) bool {
	passes, err := c.passes(with)
	if err != nil {
		c.err = fmt.Errorf("exploring %v: %w", call, err)
	}
	return passes
}
