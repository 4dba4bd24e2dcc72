//go:build cgo

package prove

import (
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compare"
	"agentjail.dev/seccomp/compiler"
)

// The kernel answers a call from its bitmap only if every filter of the process allows it whatever
// its arguments. Of the two that a jail has, the first is compiled by the delegate, in either
// shape, with what the init step needs added, and both are the profile as far as the engine's own
// filter goes along. Each call that the profile allows without a rule is such a call, but for those
// that Docker's own profile looks at.
func TestConstant(t *testing.T) {
	dockersRules := map[string]bool{"personality": true}
	for _, profile := range seccomp.Profiles() {
		for _, engines := range []string{"", compare.Docker} {
			for arch, oci := range map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64} {
				filter, err := seccomp.OCI(seccomp.Options{Profile: profile, Arch: arch})
				if err != nil {
					t.Fatal(err)
				}
				if engines != "" {
					incoming, err := compare.Section(engines, arch)
					if err != nil {
						t.Fatal(err)
					}
					filter, _ = seccomp.Intersect(filter, incoming)
				}
				second, err := compiler.Compile(filter)
				if err != nil {
					t.Fatal(err)
				}
				entry, _ := seccomp.WithEntry(filter)
				for _, tree := range []bool{false, true} {
					first, err := Compile(entry, oci, tree)
					if err != nil {
						t.Fatal(err)
					}
					checkConstant(t, profile, arch, [][]bpf.Insn{first, second}, dockersRules)
				}
			}
		}
	}
}

func checkConstant(t *testing.T, profile, arch string, filters [][]bpf.Insn, dockersRules map[string]bool) {
	t.Helper()
	audit := map[string]uint32{"amd64": bpf.ArchX86_64, "arm64": bpf.ArchAARCH64}[arch]
	entries, err := seccomp.Entries(profile, arch)
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]bool{} // in the outer filter whatever the profile states
	calls, err := seccomp.EntryCalls(arch)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range calls {
		plain[e.Name] = e.Rule == ""
	}
	for _, e := range entries {
		nr, ok := abi.Number(e.Name, arch)
		if !ok || e.Errno != "" || dockersRules[e.Name] {
			continue
		}
		for i, f := range filters {
			if got := bpf.Constant(f, audit, uint32(nr)); got != (e.Rule == "" || i == 0 && plain[e.Name]) {
				t.Errorf("%s, %s, filter %d: %s (rule %q): constant is %v", profile, arch, i+1, e.Name, e.Rule, got)
			}
		}
	}
}
