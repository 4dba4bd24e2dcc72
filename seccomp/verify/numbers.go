package verify

import (
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// numbers is the range of syscall numbers looked at one by one; above it,
// passed reports that none passes. The highest in Linux 6.18 is below 480.
const numbers = 512

// foreign: the architecture word is left unknown but for one bit that differs
// from the native one, for each bit in turn; together that is every other value.
func (p *stack) foreign() (Result, error) {
	var against []string
	for bit := range 32 {
		m := uint32(1) << bit
		ok, err := p.kills(bpf.Partial{Arch: ^p.audit & m, ArchMask: m})
		if err != nil {
			return Result{}, err
		}
		if !ok {
			against = append(against, fmt.Sprintf("calls with an architecture whose bit %d differs are not killed", bit))
		}
	}
	return result("calls of every other architecture (int 0x80, 32-bit ARM) are killed", against)
}

func (p *stack) x32() (Result, error) {
	const claim = "x32 calls (number with bit 30) are killed"
	if p.arch != "amd64" {
		return Result{Claim: claim, Holds: true, Detail: "there is no x32 on this architecture"}, nil
	}
	// All numbers from 0x40000000 to 0x7fffffff.
	ok, err := p.kills(bpf.Partial{Arch: p.audit, ArchMask: ^uint32(0), NR: bpf.X32Bit, NRMask: bpf.X32Bit | 1<<31})
	if err != nil {
		return Result{}, err
	}
	if !ok {
		return result(claim, []string{"some x32 number is not killed"})
	}
	return result(claim, nil)
}

// passed lists the numbers that pass for some arguments. against is set when
// numbers beyond the range do.
func (p *stack) passed() (nrs []uint32, against []string, err error) {
	for nr := range uint32(numbers) {
		ok, err := p.passes(bpf.Call(p.audit, nr))
		if err != nil {
			return nil, nil, err
		}
		if ok {
			nrs = append(nrs, nr)
		}
	}
	for bit := 9; bit < 32; bit++ {
		m := uint32(1) << bit
		ok, err := p.passes(bpf.Partial{Arch: p.audit, ArchMask: ^uint32(0), NR: m, NRMask: m})
		if err != nil {
			return nil, nil, err
		}
		if ok {
			against = append(against, fmt.Sprintf("some number with bit %d passes", bit))
		}
	}
	return nrs, against, nil
}

// unlisted: no number passes, whatever the arguments, but those of names.
func (p *stack) unlisted(names []string) (Result, error) {
	nrs, against, err := p.passed()
	if err != nil {
		return Result{}, err
	}
	for _, nr := range nrs {
		if name := abi.Name(nr, p.arch); !slices.Contains(names, name) {
			against = append(against, strings.TrimSpace(fmt.Sprintf("number %d %s", nr, name)))
		}
	}
	r, err := result("every number that is not listed is refused, whatever the arguments", against)
	if r.Holds {
		r.Detail = fmt.Sprintf("%d of %d listed calls pass", len(nrs), len(names))
	}
	return r, err
}

func (p *stack) count(most int) (Result, error) {
	nrs, against, err := p.passed()
	if len(nrs) > most {
		against = append(against, fmt.Sprintf("%d pass", len(nrs)))
	}
	if err != nil {
		return Result{}, err
	}
	r, err := result(fmt.Sprintf("at most %d system calls pass", most), against)
	if r.Holds {
		r.Detail = fmt.Sprintf("%d pass", len(nrs))
	}
	return r, err
}

func (p *stack) entries() (Result, error) {
	open, err := p.openEntries()
	if err != nil {
		return Result{}, err
	}
	all, err := kernelCTF()
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
