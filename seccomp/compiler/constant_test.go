package compiler

import (
	"testing"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// Every call that a profile allows with any arguments is answered from the kernel's bitmap,
// whatever the filter looks like as a whole: it costs what it costs without a filter.
func TestConstant(t *testing.T) {
	for _, profile := range seccomp.Profiles() {
		for arch, audit := range map[string]uint32{"amd64": bpf.ArchX86_64, "arm64": bpf.ArchAARCH64} {
			for _, kill := range []bool{false, true} {
				prog, err := Program(profile, arch, kill)
				if err != nil {
					t.Fatal(err)
				}
				entries, err := seccomp.Entries(profile, arch)
				if err != nil {
					t.Fatal(err)
				}
				constant := 0
				for _, e := range entries {
					nr, ok := abi.Number(e.Name, arch)
					if !ok || e.Errno != "" {
						continue
					}
					got := bpf.Constant(prog, audit, uint32(nr))
					if got != (e.Rule == "") {
						t.Errorf("%s, %s: %s (rule %q): constant is %v", profile, arch, e.Name, e.Rule, got)
					}
					if got {
						constant++
					}
				}
				if constant < 40 {
					t.Errorf("%s, %s: only %d calls are constant", profile, arch, constant)
				}
			}
		}
	}
}
