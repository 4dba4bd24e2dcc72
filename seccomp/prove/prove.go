//go:build cgo

package prove

import (
	"fmt"

	libseccomp "github.com/seccomp/libseccomp-golang"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
	"agentjail.dev/seccomp/verify"
)

// Library names the libseccomp that compiles, with its version.
func Library() string {
	major, minor, micro := libseccomp.GetLibraryVersion()
	return fmt.Sprintf("libseccomp %d.%d.%d", major, minor, micro)
}

// Prove compiles an embedded profile for an architecture (amd64 or arm64) with libseccomp, in both
// shapes that delegates give the filter (runc 1.1's chain, later runc's binary tree) and for both
// answers to violations, and checks what must hold of it: by itself, with what the init step needs
// added (of which verify.First is checked), and of that together with the inner filter, as a jail's
// program has them.
//
// Errors: an unknown profile or architecture, or a filter that libseccomp does
// not compile. A claim that does not hold is no error but a result.
func Prove(profile, arch string) ([]verify.Result, error) {
	var own, wide, both []verify.Result
	for _, kill := range []bool{false, true} {
		filter, err := seccomp.OCI(seccomp.Options{Profile: profile, Arch: arch, Kill: kill})
		if err != nil {
			return nil, err
		}
		entry, _ := seccomp.WithEntry(filter)
		second, err := compiler.Compile(filter)
		if err != nil {
			return nil, err
		}
		for _, tree := range []bool{false, true} {
			first, err := Compile(filter, filter.Architectures[0], tree)
			if err != nil {
				return nil, fmt.Errorf("profile %s for %s: %w", profile, arch, err)
			}
			res, err := verify.Profile([][]bpf.Insn{first}, profile, arch)
			if err != nil {
				return nil, err
			}
			own = verify.Merge(own, res)
			if first, err = Compile(entry, entry.Architectures[0], tree); err != nil {
				return nil, fmt.Errorf("profile %s for %s: %w", profile, arch, err)
			}
			if res, err = verify.First([][]bpf.Insn{first}, profile, arch); err != nil {
				return nil, err
			}
			wide = verify.Merge(wide, res)
			if res, err = verify.Profile([][]bpf.Insn{first, second}, profile, arch); err != nil {
				return nil, err
			}
			both = verify.Merge(both, res)
		}
	}
	for i := range wide {
		wide[i].Claim = "before the inner filter is loaded: " + wide[i].Claim
	}
	for i := range both {
		both[i].Claim = "both filters together: " + both[i].Claim
	}
	return append(append(own, wide...), both...), nil
}
