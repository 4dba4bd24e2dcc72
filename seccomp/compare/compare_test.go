package compare

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp"
)

func diff(t *testing.T, a, b, arch string) *Diff {
	t.Helper()
	sa, err := Section(a, arch)
	if err != nil {
		t.Fatal(err)
	}
	sb, err := Section(b, arch)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Sections(a, sa, b, sb, arch)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDocker(t *testing.T) {
	for arch, want := range map[string]struct{ calls, abis int }{"amd64": {308, 2}, "arm64": {266, 1}} {
		for _, p := range seccomp.Profiles() {
			d := diff(t, p, Docker, arch)
			if d.B.Allowed != want.calls || len(d.B.OtherABIs) != want.abis {
				t.Errorf("%s: Docker's default has %d calls and %v", arch, d.B.Allowed, d.B.OtherABIs)
			}
			if len(d.OnlyA) > 0 || len(d.CheckedB) > 0 {
				t.Errorf("%s %s is wider than Docker's default: %v, %v", p, arch, d.OnlyA, d.CheckedB)
			}
			if d.A.Allowed+len(d.OnlyB) != d.B.Allowed || d.A.Checked != len(d.CheckedA)+len(d.CheckedBoth) {
				t.Errorf("%s %s: the lists do not add up: %+v", p, arch, d)
			}
			if len(d.A.OtherABIs) > 0 || d.A.KernelCTF > 2 || d.B.KernelCTF < 10 {
				t.Errorf("%s %s: %v, %d of 100 open, %d in Docker's default", p, arch, d.A.OtherABIs, d.A.KernelCTF, d.B.KernelCTF)
			}
			for _, n := range []string{"ptrace", "userfaultfd", "keyctl", "io_uring_setup", "splice"} {
				if got := slices.Contains(d.OnlyB, n); got != (n == "ptrace" && !seccomp.Traces(p) || n == "splice") {
					t.Errorf("%s %s: %s passes only in Docker's default: %v", p, arch, n, got)
				}
			}
		}
	}
	d := diff(t, "default", Docker, "amd64")
	if !slices.Contains(d.CheckedA, "ioctl") || !slices.Contains(d.CheckedBoth, "socket") {
		t.Errorf("%+v", d)
	}
	if d := diff(t, "default", "default", "amd64"); len(d.OnlyA)+len(d.OnlyB)+len(d.CheckedA)+len(d.CheckedB) > 0 {
		t.Errorf("default differs from itself: %+v", d)
	}
	if d := diff(t, "strict", "default", "amd64"); len(d.OnlyB) == 0 || len(d.OnlyA) > 0 {
		t.Errorf("strict and default: %+v", d)
	}
}

// Files in all forms that people have filters in.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	section := `{"defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
		"syscalls": [{"names": ["read", "write", "bpf"], "action": "SCMP_ACT_ALLOW"}, {"names": ["clone"], "action": "SCMP_ACT_ALLOW",
		"args": [{"index": 0, "value": 2114060288, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]}]}`
	dockers := `{"defaultAction": "SCMP_ACT_ERRNO", "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}],
		"syscalls": [{"names": ["read", "bpf"], "action": "SCMP_ACT_ALLOW"}, {"name": "write", "action": "SCMP_ACT_ALLOW"},
		{"names": ["mount"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
		{"names": ["uname"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["arm64"]}},
		{"names": ["clone"], "action": "SCMP_ACT_ALLOW", "excludes": {"caps": ["CAP_SYS_ADMIN"]},
		"args": [{"index": 0, "value": 2114060288, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]}]}`
	for _, path := range []string{
		file("section.json", section),
		file("config.json", `{"ociVersion": "1.0.2", "linux": {"seccomp": `+section+`}}`),
		file("docker.json", dockers),
	} {
		d := diff(t, path, "default", "amd64")
		if d.A.Allowed != 4 || d.A.Checked != 1 || !slices.Equal(d.OnlyA, []string{"bpf"}) || !slices.Equal(d.A.OtherABIs, []specs.Arch{specs.ArchX86}) {
			t.Errorf("%s: %+v", path, d)
		}
	}
	for name, text := range map[string]string{
		"empty.json":   `{}`,
		"text.json":    `read write`,
		"nofilter":     `{"ociVersion": "1.0.2", "linux": {}}`,
		"nothing.json": ``,
	} {
		if s, err := Section(file(name, text), "amd64"); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if _, err := Section("no-such-profile", "amd64"); err == nil {
		t.Error("an unknown profile is found")
	}
	s, err := Section(file("listener.json", `{"defaultAction": "SCMP_ACT_NOTIFY"}`), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Sections("a", s, "b", s, "amd64"); err == nil {
		t.Error("a filter with a listener is compared")
	}
}
