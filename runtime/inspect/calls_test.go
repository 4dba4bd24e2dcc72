package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compare"
	"agentjail.dev/seccomp/compiler"
)

// The count is that of the compiled filter, whatever errno refused calls have.
func TestCountCalls(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		prog, err := compiler.Program("default", arch, false)
		if err != nil {
			t.Fatal(err)
		}
		section, err := compare.Section("default", arch)
		if err != nil {
			t.Fatal(err)
		}
		want, err := compare.Sections("default", section, "default", section, arch)
		if err != nil {
			t.Fatal(err)
		}
		got, err := countCalls(prog, arch)
		if err != nil || got.Pass != want.A.Allowed || got.Checked <= want.A.Checked/2 || got.Checked > want.A.Checked || got.Pass+got.Refused != len(abi.Names(arch)) {
			t.Errorf("%s: %+v, %v; want %+v", arch, got, err, want.A)
		}
	}
	// A record without a filter, or with a damaged one, only has less to state.
	path := filepath.Join(t.TempDir(), "filter")
	for _, raw := range []string{"", "damaged", strings.Repeat("x", 16)} {
		if err := os.WriteFile(path, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		if c := callsOf(path); c != nil {
			t.Errorf("%q: %+v", raw, c)
		}
	}
	if c, err := countCalls([]bpf.Insn{{Code: 0x06, K: bpf.RetAllow}}, "amd64"); err != nil || c.Refused != 0 || c.Checked != 0 {
		t.Errorf("a filter that allows all: %+v, %v", c, err)
	}
}
