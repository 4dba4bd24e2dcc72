package compare

import (
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
	"agentjail.dev/seccomp/verify"
)

// Side is what one filter lets pass.
type Side struct {
	Name string `json:"name"`
	// Allowed is how many calls pass for some arguments, Checked for how many
	// of these it depends on the arguments.
	Allowed int `json:"allowed"`
	Checked int `json:"checked"`
	// OtherABIs are the architectures beside the native one whose calls are
	// filtered and not killed.
	OtherABIs []specs.Arch `json:"otherABIs,omitempty"`
	// KernelCTF is how many of the 100 public kernelCTF submissions find their
	// entry point open.
	KernelCTF int `json:"kernelCTF"`

	calls map[string]passing
}

// passing is for which arguments a call passes.
type passing int

const (
	never passing = iota
	some
	always
)

// Diff is what two filters let pass differently. The lists are sorted.
type Diff struct {
	Arch string `json:"arch"`
	A    Side   `json:"a"`
	B    Side   `json:"b"`
	// OnlyA and OnlyB pass for some arguments in one and for none in the other.
	OnlyA []string `json:"onlyA"`
	OnlyB []string `json:"onlyB"`
	// CheckedA pass in B whatever the arguments and in A not; CheckedB the
	// other way round. CheckedBoth depend on the arguments in both, and may differ.
	CheckedA    []string `json:"checkedA"`
	CheckedB    []string `json:"checkedB"`
	CheckedBoth []string `json:"checkedBoth"`
}

var (
	goarchOf = map[specs.Arch]string{specs.ArchX86_64: "amd64", specs.ArchAARCH64: "arm64"}
	native   = map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}
	family   = map[string][]specs.Arch{"amd64": {specs.ArchX86, specs.ArchX32}, "arm64": {specs.ArchARM}}
)

// Sections compares two sections for an architecture (a GOARCH). Errors: one
// that cannot be compiled, with the reason.
func Sections(nameA string, a *specs.LinuxSeccomp, nameB string, b *specs.LinuxSeccomp, arch string) (*Diff, error) {
	d := &Diff{Arch: arch, OnlyA: []string{}, OnlyB: []string{}, CheckedA: []string{}, CheckedB: []string{}, CheckedBoth: []string{}}
	for _, x := range []struct {
		to   *Side
		name string
		s    *specs.LinuxSeccomp
	}{{&d.A, nameA, a}, {&d.B, nameB, b}} {
		if err := x.to.look(x.name, x.s, arch); err != nil {
			return nil, fmt.Errorf("%s: %w", x.name, err)
		}
	}
	for _, n := range abi.Names(arch) {
		pa, pb := d.A.calls[n], d.B.calls[n]
		var to *[]string
		switch {
		case pa > never && pb == never:
			to = &d.OnlyA
		case pb > never && pa == never:
			to = &d.OnlyB
		case pa == some && pb == always:
			to = &d.CheckedA
		case pb == some && pa == always:
			to = &d.CheckedB
		case pa == some && pb == some:
			to = &d.CheckedBoth
		default:
			continue
		}
		*to = append(*to, n)
	}
	return d, nil
}

// look finds out what a section lets pass, call by call.
func (s *Side) look(name string, section *specs.LinuxSeccomp, arch string) error {
	here, ok := native[arch]
	if !ok {
		return fmt.Errorf("architecture %q is not one of amd64 and arm64", arch)
	}
	one := *section
	one.Architectures = []specs.Arch{here}
	prog, err := compiler.Compile(&one)
	if err != nil {
		return err
	}
	s.Name, s.calls = name, map[string]passing{}
	for _, a := range family[arch] {
		if slices.Contains(section.Architectures, a) {
			s.OtherABIs = append(s.OtherABIs, a)
		}
	}
	audit := bpf.AuditArch(arch)
	for _, n := range abi.Names(arch) {
		nr, _ := abi.Number(n, arch)
		v, err := bpf.Verdicts(prog, bpf.Call(audit, nr))
		if err != nil {
			return fmt.Errorf("exploring %s: %w", n, err)
		}
		passes := func(x uint32) bool {
			return x&bpf.RetActionFull == bpf.RetAllow || x&bpf.RetActionFull == bpf.RetLog
		}
		if !slices.ContainsFunc(v, passes) {
			continue
		}
		s.Allowed++
		s.calls[n] = always
		if slices.ContainsFunc(v, func(x uint32) bool { return !passes(x) }) {
			s.Checked++
			s.calls[n] = some
		}
	}
	open, err := verify.OpenEntries([][]bpf.Insn{prog}, arch)
	if err != nil {
		return err
	}
	for _, e := range open {
		s.KernelCTF += e.Submissions
	}
	return nil
}
