package verify

import (
	"errors"
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
func (c *check) foreign() string {
	for bit := range 32 {
		m := uint32(1) << bit
		c.killed(bpf.Partial{Arch: ^c.audit & m, ArchMask: m}, fmt.Sprintf("calls with an architecture whose bit %d differs are not killed", bit))
	}
	return "calls of every other architecture (int 0x80, 32-bit ARM) are killed"
}

func (c *check) x32() string {
	if c.arch != "amd64" {
		c.detail = "there is no x32 on this architecture"
	} else { // all numbers from 0x40000000 to 0x7fffffff
		c.killed(bpf.Partial{Arch: c.audit, ArchMask: ^uint32(0), NR: bpf.X32Bit, NRMask: bpf.X32Bit | 1<<31},
			"some x32 number is not killed")
	}
	return "x32 calls (number with bit 30) are killed"
}

// killed requires that some filter ends the process or thread on every call of a set. If none does,
// otherwise speaks against the claim.
func (c *check) killed(calls bpf.Partial, otherwise string) {
	ok, err := c.kills(calls)
	if err != nil {
		c.err = err
	} else if !ok {
		c.against = append(c.against, otherwise)
	}
}

// passed lists the numbers that pass for some arguments. No number beyond the range may pass.
func (c *check) passed() (nrs []uint32) {
	for nr := range uint32(numbers) {
		if c.may(nr, bpf.Call(c.audit, nr)) {
			nrs = append(nrs, nr)
		}
	}
	for bit := 9; bit < 32; bit++ {
		m := uint32(1) << bit
		if c.may(m, bpf.Partial{Arch: c.audit, ArchMask: ^uint32(0), NR: m, NRMask: m}) {
			c.against = append(c.against, fmt.Sprintf("some number with bit %d passes", bit))
		}
	}
	return nrs
}

// unlisted: no number passes, whatever the arguments, but those of names.
func (c *check) unlisted(names []string) string {
	nrs := c.passed()
	for _, nr := range nrs {
		if name := abi.Name(nr, c.arch); !slices.Contains(names, name) {
			c.against = append(c.against, strings.TrimSpace(fmt.Sprintf("number %d %s", nr, name)))
		}
	}
	c.detail = fmt.Sprintf("%d of %d listed calls pass", len(nrs), len(names))
	return "every number that is not listed is refused, whatever the arguments"
}

func (c *check) count(most int) string {
	n := len(c.passed())
	c.detail = fmt.Sprintf("%d pass", n)
	if n > most {
		c.against = append(c.against, c.detail)
	}
	return fmt.Sprintf("at most %d system calls pass", most)
}

func (c *check) entries() string {
	open, err := c.openEntries()
	all, aerr := kernelCTF()
	c.err = errors.Join(err, aerr)
	n, of := 0, 0
	var names []string
	for _, e := range open {
		n += e.Submissions
		names = append(names, e.Name)
	}
	for _, e := range all {
		of += e.Submissions
	}
	c.detail = fmt.Sprintf("%d of %d open", n, of)
	if n > 0 {
		c.detail += ": " + strings.Join(names, ", ")
	}
	if n*100 > 2*of {
		c.against = []string{c.detail}
	}
	return "of the entry points of public kernelCTF exploits at most 2 in 100 are open"
}
