package delegate

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestTranslate: runc's own options that a sandbox does not know are left out, its flags come first,
// and other delegates get their arguments as they are.
func TestTranslate(t *testing.T) {
	args := []string{
		"--root", "/r", "--rootless", "false", "create", "--bundle", "/b", "--pidfd-socket=/p", "--preserve-fds", "2", "--pidfd-socket", "/q", "id",
	}
	want := []string{"--root", "/r", "create", "--bundle", "/b", "id"}
	for _, c := range []struct {
		options SandboxOptions
		has     []string
	}{
		{SandboxOptions{}, []string{"--network=sandbox"}},
		{SandboxOptions{Network: NoSockets}, []string{"--network=none"}},
		{SandboxOptions{Network: HostSockets, ByGofer: true}, []string{"--network=host", "--directfs=false"}},
	} {
		r := &Runtime{Name: "runsc", Sandbox: c.options}
		got := r.translate(args)
		flags, rest := got[:len(got)-len(want)], got[len(got)-len(want):]
		if !slices.Equal(rest, want) {
			t.Errorf("%q", got)
		}
		for _, f := range append(c.has, "--oci-seccomp", "--overlay2=none", "--file-access=shared", "--host-uds=none") {
			if !slices.Contains(flags, f) {
				t.Errorf("%s is not in %q", f, flags)
			}
		}
		if slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--directfs") }) != c.options.ByGofer {
			t.Errorf("%q", flags)
		}
	}
	for _, name := range []string{"runc", "crun", "youki"} {
		if got := (&Runtime{Name: name}).translate(args); !slices.Equal(got, args) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestOwnRoot: a sandbox's delegate finds no container but that of the call, whose id may begin like
// another's. Other delegates have the caller's root.
func TestOwnRoot(t *testing.T) {
	for _, c := range []struct{ name, container, root, want string }{
		{"runsc", "web", "/r", "/r/web"}, {"runsc", "web", "", "/run/runsc/web"}, {"runsc", "", "/r", "/r"}, {"runc", "web", "/r", "/r"},
	} {
		args := []string{"kill", "web"}
		if c.root != "" {
			args = append([]string{"--root", c.root}, args...)
		}
		got := (&Runtime{Name: c.name, Container: c.container}).translate(args)
		if i := slices.Index(got, "--root"); i < 0 || got[i+1] != c.want || slices.Contains(got[i+1:], "--root") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestResources: a sandbox has room for its own processes, and the caller's limits stay as they are.
func TestResources(t *testing.T) {
	n := int64(100)
	in := &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &n}}
	for name, want := range map[string]int64{"runsc": 456, "runc": 100} {
		if out := (&Runtime{Name: name}).Resources(in); *out.Pids.Limit != want || n != 100 {
			t.Errorf("%s: %d, %d", name, *out.Pids.Limit, n)
		}
	}
	if (&Runtime{Name: "runsc"}).Resources(nil) != nil {
		t.Error("limits out of none")
	}
}
