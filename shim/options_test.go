package shim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/api/types/runtimeoptions/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func packed(t *testing.T, kind string, m proto.Message) *anypb.Any {
	t.Helper()
	value, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return &anypb.Any{TypeUrl: kind, Value: value}
}

// createOptions is containerd.linux.runc.CreateOptions of containerd 1.x, whose types containerd 2
// does not have.
func createOptions() *anypb.Any {
	var b []byte
	b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), 1)     // no_pivot_root
	b = protowire.AppendString(protowire.AppendTag(b, 9, protowire.BytesType), "/cg")  // shim_cgroup
	b = protowire.AppendVarint(protowire.AppendTag(b, 10, protowire.VarintType), 1000) // io_uid
	b = protowire.AppendVarint(protowire.AppendTag(b, 11, protowire.VarintType), 1001) // io_gid
	return &anypb.Any{TypeUrl: "containerd.linux.runc.CreateOptions", Value: b}
}

func TestNormalise(t *testing.T) {
	const runcKind, otherKind = "containerd.runc.v1.Options", "runtimeoptions.v1.Options"
	body := func(text string) *anypb.Any {
		return packed(t, otherKind, &runtimeoptions.Options{TypeUrl: "x", ConfigBody: []byte(text)})
	}
	path := func(p string) *anypb.Any {
		return packed(t, otherKind, &runtimeoptions.Options{ConfigPath: p})
	}
	for _, try := range []struct {
		what string
		in   *anypb.Any
		want *options.Options // nil: refused
	}{
		{"nothing", nil, &options.Options{BinaryName: "agentjail"}},
		{"empty", &anypb.Any{}, &options.Options{BinaryName: "agentjail"}},
		{
			"runc's", packed(t, runcKind, &options.Options{SystemdCgroup: true, Root: "/r", ShimCgroup: "/s", BinaryName: "/usr/bin/crun", CriuWorkPath: "/c", CriuImagePath: "/i"}),
			&options.Options{SystemdCgroup: true, Root: "/r", ShimCgroup: "/s", BinaryName: "agentjail"},
		},
		{"runc's with an address", packed(t, "types.containerd.io/"+runcKind, &options.Options{IoUid: 7}), &options.Options{IoUid: 7, BinaryName: "agentjail"}},
		{"a profile as binary", packed(t, runcKind, &options.Options{BinaryName: "/usr/local/bin/agentjail-strict"}), &options.Options{BinaryName: "agentjail-strict"}},
		{"no profile as binary", packed(t, runcKind, &options.Options{BinaryName: "agentjail-a b"}), nil},
		{"a policy smuggled as binary", packed(t, runcKind, &options.Options{BinaryName: "agentjail:/tmp/policy"}), &options.Options{BinaryName: "agentjail"}},
		{"a policy smuggled with a profile", packed(t, runcKind, &options.Options{BinaryName: "agentjail-x:/tmp/policy"}), &options.Options{BinaryName: "agentjail"}},
		{"create options", createOptions(), &options.Options{ShimCgroup: "/cg", IoUid: 1000, IoGid: 1001, BinaryName: "agentjail"}},
		{"broken create options", &anypb.Any{TypeUrl: "containerd.linux.runc.CreateOptions", Value: []byte{0x4a, 0xff}}, nil},
		{"policy file", path("/opt/policy.toml"), &options.Options{BinaryName: "agentjail:/opt/policy.toml"}},
		{"the default policy", path("/etc/agentjail/config.toml"), &options.Options{BinaryName: "agentjail"}},
		{"profile", path("strict"), &options.Options{BinaryName: "agentjail-strict"}},
		{"profile with a path", path("../../etc/passwd"), nil},
		{"policy with a colon", path("/a:b"), nil},
		{"policy with a way back", path("/a/../b"), nil},
		{
			"table", body("TypeUrl = 'x'\npolicy = 'strict'\nSystemdCgroup = true\nroot = '/r'\nBinaryName = 'runc'\nNoPivotRoot = true\nIoUid = 5"),
			&options.Options{SystemdCgroup: true, Root: "/r", BinaryName: "agentjail-strict"},
		},
		{
			"table, other names", body("systemd_cgroup = true\nbinary_name = 'agentjail-x'\nconfig = '/p'\nshim_cgroup = '/s'"),
			&options.Options{SystemdCgroup: true, ShimCgroup: "/s", BinaryName: "agentjail-x:/p"},
		},
		{"table with a path", body("ConfigPath = 'server'"), &options.Options{BinaryName: "agentjail-server"}},
		{"misspelt table", body("polic = 'strict'"), nil},
		{"what policy was called", body("profile = 'strict'"), nil},
		{"a file where a name is due", body("policy = '/etc/agentjail/other.toml'"), nil},
		{"wrong type", body("policy = 1"), nil},
		{"no table", body("]]"), nil},
		{"unknown kind", &anypb.Any{TypeUrl: "a.b", Value: []byte{1}}, nil},
		{"no kind", &anypb.Any{Value: []byte{1}}, nil},
		{"too long", &anypb.Any{TypeUrl: runcKind, Value: make([]byte, maxOptions+1)}, nil},
		{"not of its kind", &anypb.Any{TypeUrl: runcKind, Value: []byte{0xff}}, nil},
	} {
		got, err := normalise(try.in)
		switch {
		case try.want == nil && err == nil:
			t.Errorf("%s: taken as %v", try.what, got)
		case try.want != nil && err != nil:
			t.Errorf("%s: %v", try.what, err)
		case try.want != nil && !proto.Equal(got, try.want):
			t.Errorf("%s: %v, not %v", try.what, got, try.want)
		}
	}
}

// A name comes back as it went, and none that is not ours states anything.
func TestNames(t *testing.T) {
	for _, n := range []name{{}, {policy: "strict"}, {config: "/a/b"}, {"x.y-z", "/a/b"}} {
		if got := parseName(n.String()); got != n {
			t.Errorf("%q: %+v, not %+v", n.String(), got, n)
		}
	}
	for _, s := range []string{"", "runc", "/usr/bin/crun", "x:/etc/passwd", "runc:/etc/passwd", "agentjail:relative"} {
		if got := parseName(s); got != (name{}) {
			t.Errorf("%q: %+v", s, got)
		}
	}
}

// Whatever options are sent, they are refused or become a name of ours, whose policy file is
// absolute.
func FuzzNormalise(f *testing.F) {
	f.Add("containerd.runc.v1.Options", []byte{0x32, 1, 'x'})
	f.Add("runtimeoptions.v1.Options", []byte{0x1a, 3, 'a', '=', '1'})
	f.Add("containerd.linux.runc.CreateOptions", createOptions().Value)
	f.Fuzz(func(t *testing.T, kind string, value []byte) {
		o, err := normalise(&anypb.Any{TypeUrl: kind, Value: value})
		if err != nil {
			return
		}
		n := parseName(o.BinaryName)
		if n.String() != o.BinaryName || n.policy != "" && !strings.HasPrefix(n.policy, "/") {
			t.Errorf("%q", o.BinaryName)
		}
	})
}

// The systemd driver is recognised by the control groups path; anything else, also what cannot be read,
// is not its.
func TestSystemdPath(t *testing.T) {
	dir := t.TempDir()
	for config, want := range map[string]bool{
		`{"linux": {"cgroupsPath": "system.slice:docker:0123"}}`: true,
		`{"linux": {"cgroupsPath": ":docker:0123"}}`:             true,
		`{"linux": {"cgroupsPath": "/default/x"}}`:               false,
		`{"linux": {"cgroupsPath": "/a:b:c"}}`:                   false,
		`{"linux": {"cgroupsPath": 1}}`:                          false,
		`{}`:                                                     false,
		``:                                                       false,
	} {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := systemdPath(dir); got != want {
			t.Errorf("%s: %v", config, got)
		}
	}
	if systemdPath(filepath.Join(dir, "none")) {
		t.Error("no bundle is systemd's")
	}
}
