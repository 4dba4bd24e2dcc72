package harden

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

// id is the container's id in the fixtures.
var id = strings.Repeat("a1", 32)

// testHost is a host that has everything.
func testHost() hostfacts.Facts {
	return hostfacts.Facts{
		Arch: "amd64", CPUs: 8, MemTotal: 64 << 30,
		Cgroup:   hostfacts.Cgroup{V2: true, Pids: true, Memory: true, Swap: true, CPU: true, IO: true},
		AppArmor: true, Landlock: 6, TimeNS: true, CgroupNS: true, BootTime: 100000, Monotonic: 90000,
		HardLimits:  hostfacts.Limits{"RLIMIT_NOFILE": 1 << 20, "RLIMIT_CORE": 1<<64 - 1, "RLIMIT_NPROC": 1 << 20},
		OOMScoreAdj: -500,
		HugePages:   []string{"2MB"},
		LoadFiles:   []string{"/sys/devices/system/cpu/cpu0/thermal_throttle"},
	}
}

// testFacts knows the sources of a spec's bind mounts by their names.
func testFacts(s *specs.Spec) Facts {
	f := Facts{ID: id, Host: testHost(), IDs: policy.Default().Userns.Block(7)}
	for _, m := range s.Mounts {
		f.Sources = append(f.Sources, factOf(m))
	}
	return f
}

func factOf(m specs.Mount) *bindsource.Fact {
	if !IsBind(m) {
		return nil
	}
	p := path.Clean(m.Source)
	f := &bindsource.Fact{Path: p, Kind: bindsource.Dir}
	switch base := path.Base(p); {
	case strings.Contains(p, "/volumes/"):
		f.Role, f.DiskMajor = bindsource.Volume, 8
	case strings.Contains(p, "/containers/"), strings.Contains(p, "/userdata/"):
		f.Role = bindsource.Injected
		if base != "shm" {
			f.Kind = bindsource.File
		} else {
			f.Room = 64 << 20
		}
	case strings.HasPrefix(p, "/home/"):
		f.UID, f.GID, f.DiskMajor, f.DiskMinor = 1000, 1000, 8, 16
	case strings.HasPrefix(p, "/usr/"):
		f.System = true
		if strings.HasPrefix(p, "/usr/bin/") {
			f.Kind = bindsource.File
		}
	case strings.HasPrefix(p, "/etc/"):
		f.Kind = bindsource.File
	case strings.HasSuffix(p, ".sock"):
		f.Kind = bindsource.Socket
	}
	return f
}

// small is the least spec that makes a jail.
func small() *specs.Spec {
	return &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: "/var/lib/docker/overlay2/x/merged"},
		Process: &specs.Process{Args: []string{"sh"}, Cwd: "/", User: specs.User{UID: 1000, GID: 1000}},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		},
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: "pid"}, {Type: "mount"}, {Type: "network"}, {Type: "ipc"}, {Type: "uts"}}},
	}
}

// with is small with a change.
func with(change func(*specs.Spec)) *specs.Spec {
	s := small()
	change(s)
	return s
}

// mount is small with further mounts.
func mount(ms ...specs.Mount) *specs.Spec {
	return with(func(s *specs.Spec) { s.Mounts = append(s.Mounts, ms...) })
}

// jail hardens a spec that has to pass, with the default policy.
func jail(t testing.TB, s *specs.Spec) (*Result, *report.Report) {
	t.Helper()
	res, rep, err := Harden(s, policy.Default(), testFacts(s))
	if err != nil {
		t.Fatal(err)
	}
	return res, rep
}

// refused hardens a spec that has to be refused, and returns the reason.
func refused(t testing.TB, s *specs.Spec, pol policy.Policy, f Facts) string {
	t.Helper()
	res, _, err := Harden(s, pol, f)
	if err == nil {
		t.Fatalf("not refused: %s", jsonOf(t, res.Spec))
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("not one line: %q", err)
	}
	return err.Error()
}

// find returns the changes of a field, or of those that it begins.
func find(rep *report.Report, kind report.Kind, field string) []report.Change {
	var out []report.Change
	for _, c := range rep.Of(kind) {
		if c.Field == field || strings.HasSuffix(field, "*") && strings.HasPrefix(c.Field, strings.TrimSuffix(field, "*")) {
			out = append(out, c)
		}
	}
	return out
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func contain(t *testing.T, what, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s: %q is not in %q", what, w, text)
		}
	}
}

// fixtures are config.json files as real engines wrote them: Docker 20.10.24,
// containerd 1.6.20 (ctr) and Podman 4.3.1, with plain names in place of ids
// and directories of the machine.
func fixtures(t testing.TB) map[string]*specs.Spec {
	t.Helper()
	out := map[string]*specs.Spec{}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		if strings.HasSuffix(name, "-exec") || strings.HasSuffix(name, "-update") {
			continue
		}
		s := new(specs.Spec)
		readFixture(t, name, s)
		out[name] = s
	}
	if len(out) < 15 {
		t.Fatalf("only %d fixtures", len(out))
	}
	return out
}

func readFixture(t testing.TB, name string, v any) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Decode(data, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
