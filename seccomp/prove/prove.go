//go:build cgo

package prove

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	libseccomp "github.com/seccomp/libseccomp-golang"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
)

// Result is one claim about a compiled filter.
type Result struct {
	// Claim says what must hold, in words.
	Claim string `json:"claim"`
	// Holds is true when it was shown for every number and argument the
	// claim speaks of.
	Holds bool `json:"holds"`
	// Detail is a count, or what speaks against the claim.
	Detail string `json:"detail,omitempty"`
}

// Prove compiles an embedded profile for an architecture (amd64 or arm64), in
// both shapes that delegates give the filter (runc 1.1's chain, later runc's
// binary tree) and for both answers to violations, and checks what must hold of
// it. The claims are decided by exploring the compiled program with the
// arguments unknown, so that they hold for all of them, not for samples.
//
// Errors: an unknown profile or architecture, or a filter that libseccomp does
// not compile. A claim that does not hold is no error but a result.
func Prove(profile, arch string) ([]Result, error) {
	var out []Result
	for _, kill := range []bool{false, true} {
		filter, err := seccomp.OCI(seccomp.Options{Profile: profile, Arch: arch, Kill: kill})
		if err != nil {
			return nil, err
		}
		for _, tree := range []bool{false, true} {
			res, err := proveOne(filter, tree)
			if err != nil {
				return nil, fmt.Errorf("profile %s for %s: %w", profile, arch, err)
			}
			out = merge(out, res)
		}
	}
	return out, nil
}

// merge keeps one result a claim: the first that does not hold.
func merge(a, b []Result) []Result {
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

// Check checks the claims that must hold of any filter agentjail hands to a
// delegate, whatever came in: also of the intersection with an engine's
// profile. Errors as for Compile.
func Check(filter *specs.LinuxSeccomp, tree bool) ([]Result, error) { return proveOne(filter, tree) }

// auditArch maps an architecture to its AUDIT_ARCH_* value.
var auditArch = map[specs.Arch]uint32{specs.ArchX86_64: bpf.ArchX86_64, specs.ArchAARCH64: bpf.ArchAARCH64}

// numbers is the range of syscall numbers looked at one by one. The highest in
// Linux 6.18 is below 480.
const numbers = 512

type prover struct {
	prog []bpf.Insn
	arch specs.Arch
	out  []Result
}

func proveOne(filter *specs.LinuxSeccomp, tree bool) ([]Result, error) {
	if len(filter.Architectures) != 1 {
		return nil, fmt.Errorf("filter for %d architectures %v: only one can be native", len(filter.Architectures), filter.Architectures)
	}
	p := &prover{arch: filter.Architectures[0]}
	if _, ok := auditArch[p.arch]; !ok {
		return nil, fmt.Errorf("architecture %s is not one of amd64 and arm64", p.arch)
	}
	var err error
	if p.prog, err = Compile(filter, p.arch, tree); err != nil {
		return nil, err
	}
	for _, claim := range []func() (Result, error){
		p.foreign, p.x32, func() (Result, error) { return p.unlisted(filter) },
		p.ioUring, p.namespaces, p.dangerous, p.families, p.raw, p.setID, p.terminal, p.options, p.oob, p.prctl, p.highBits, p.entries,
	} {
		r, err := claim()
		if err != nil {
			return nil, err
		}
		p.out = append(p.out, r)
	}
	return p.out, nil
}

// result is a claim with what speaks against it.
func result(claim string, against []string) (Result, error) {
	if len(against) > 8 {
		against = append(against[:8:8], "…")
	}
	return Result{Claim: claim, Holds: len(against) == 0, Detail: strings.Join(against, ", ")}, nil
}

// partial is a call by name with unknown arguments. ok is false when the
// architecture or this libseccomp has no such call.
func partial(name string, arch specs.Arch) (p bpf.Partial, ok bool, err error) {
	audit, known := auditArch[arch]
	if !known {
		return p, false, fmt.Errorf("architecture %s is not one of amd64 and arm64", arch)
	}
	nr, err := libseccomp.GetSyscallFromNameByArch(name, arches[arch])
	if err != nil || nr < 0 {
		return p, false, nil
	}
	return bpf.Call(audit, uint32(nr)), true, nil
}

// never lists those of the calls that pass for some arguments that fit.
func (p *prover) never(names []string, with ...known) ([]string, error) {
	var against []string
	for _, n := range names {
		c, ok, err := partial(n, p.arch)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		for _, k := range with {
			c = c.With(k.arg, uint64(k.mask), uint64(k.value))
		}
		passes, err := bpf.Passes(p.prog, c)
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

// kills says whether every verdict of a partial call ends the process or thread.
func (p *prover) kills(c bpf.Partial) (bool, error) {
	v, err := bpf.Verdicts(p.prog, c)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(v, func(x uint32) bool {
		return x&bpf.RetActionFull != bpf.RetKillProcess && x&bpf.RetActionFull != bpf.RetKillThread
	}), nil
}

// foreign: the architecture word is left unknown but for one bit that differs
// from the native one, for each bit in turn; together that is every other value.
func (p *prover) foreign() (Result, error) {
	native := auditArch[p.arch]
	var against []string
	for bit := range 32 {
		m := uint32(1) << bit
		ok, err := p.kills(bpf.Partial{Arch: ^native & m, ArchMask: m})
		if err != nil {
			return Result{}, err
		}
		if !ok {
			against = append(against, fmt.Sprintf("calls with an architecture whose bit %d differs are not killed", bit))
		}
	}
	return result("calls of every other architecture (int 0x80, 32-bit ARM) are killed", against)
}

func (p *prover) x32() (Result, error) {
	const claim = "x32 calls (number with bit 30) are killed"
	if p.arch != specs.ArchX86_64 {
		return Result{Claim: claim, Holds: true, Detail: "there is no x32 on this architecture"}, nil
	}
	// All numbers from 0x40000000 to 0x7fffffff.
	ok, err := p.kills(bpf.Partial{Arch: bpf.ArchX86_64, ArchMask: ^uint32(0), NR: bpf.X32Bit, NRMask: bpf.X32Bit | 1<<31})
	if err != nil {
		return Result{}, err
	}
	if !ok {
		return result(claim, []string{"some x32 number is not killed"})
	}
	return result(claim, nil)
}

// unlisted: every number that the filter does not name is refused.
func (p *prover) unlisted(filter *specs.LinuxSeccomp) (Result, error) {
	allowed := map[uint32]bool{}
	for _, s := range filter.Syscalls {
		if s.Action != specs.ActAllow {
			continue
		}
		for _, n := range s.Names {
			if nr, err := libseccomp.GetSyscallFromNameByArch(n, arches[p.arch]); err == nil && nr >= 0 {
				allowed[uint32(nr)] = true
			}
		}
	}
	var against []string
	native := auditArch[p.arch]
	for nr := range uint32(numbers) {
		passes, err := bpf.Passes(p.prog, bpf.Call(native, nr))
		if err != nil {
			return Result{}, err
		}
		if passes != allowed[nr] {
			against = append(against, fmt.Sprintf("number %d: passes %v, listed %v", nr, passes, allowed[nr]))
		}
	}
	for bit := 9; bit < 32; bit++ {
		m := uint32(1) << bit
		passes, err := bpf.Passes(p.prog, bpf.Partial{Arch: native, ArchMask: ^uint32(0), NR: m, NRMask: m})
		if err != nil {
			return Result{}, err
		}
		if passes {
			against = append(against, fmt.Sprintf("some number with bit %d passes", bit))
		}
	}
	r, err := result("every number that is not listed is refused, whatever the arguments", against)
	if r.Holds {
		r.Detail = fmt.Sprintf("%d calls listed", len(allowed))
	}
	return r, err
}

func (p *prover) entries() (Result, error) {
	open, err := OpenEntries(p.prog, p.arch)
	if err != nil {
		return Result{}, err
	}
	all, err := KernelCTF()
	if err != nil {
		return Result{}, err
	}
	n, of := 0, 0
	var names []string
	for _, e := range open {
		n += e.Submissions
		names = append(names, e.Name)
	}
	for _, e := range all {
		of += e.Submissions
	}
	d := fmt.Sprintf("%d of %d open", n, of)
	if n > 0 {
		d += ": " + strings.Join(names, ", ")
	}
	return Result{Claim: "of the entry points of public kernelCTF exploits at most 2 in 100 are open", Holds: n*100 <= 2*of, Detail: d}, nil
}
