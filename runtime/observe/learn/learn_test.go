package learn

import (
	"bytes"
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/learn/record"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
)

func number(t *testing.T, name string) uint32 {
	t.Helper()
	nr, ok := abi.Number(name, "amd64")
	if !ok {
		t.Fatal(name)
	}
	return nr
}

func compiled(t *testing.T, o seccomp.Options) []bpf.Insn {
	t.Helper()
	section, err := seccomp.OCI(o)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := compiler.Compile(section)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

func runOf(t *testing.T, calls ...record.Seen) Run {
	t.Helper()
	return Run{ID: "j", Seen: calls, Filter: compiled(t, seccomp.Options{Profile: "default", Arch: "amd64"}), Used: Used{Memory: 100 << 20, Pids: 20}}
}

func options() Options {
	return Options{Name: "work", Policy: policy.Default(), Arch: "amd64", Work: "a test"}
}

// TestMake: what was called passes, with its arguments; what was not does not; nothing passes that
// the profile refuses.
func TestMake(t *testing.T) {
	r, err := Make(options(), runOf(t,
		record.Seen{Number: number(t, "getcwd"), Count: 3},
		record.Seen{Number: number(t, "socket"), Args: [6]uint64{1, 1}, Count: 2},
		record.Seen{Number: number(t, "socket"), Errno: 97, Args: [6]uint64{40, 1}, Count: 5},
		record.Seen{Number: number(t, "unshare"), Errno: 38, Count: 1},
		record.Seen{Number: number(t, "openat"), Errno: 2, Count: 9}, // the kernel's own
		record.Seen{Number: 9999, Count: 1},
	))
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.List.Text()
	if err != nil {
		t.Fatal(err)
	}
	list, err := seccomp.ParseList(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	was, is := compiled(t, seccomp.Options{Profile: "default", Arch: "amd64"}), compiled(t, seccomp.Options{Profile: "default", Arch: "amd64", Only: list})
	passes := func(prog []bpf.Insn, name string, args ...uint64) bool {
		d := bpf.Data{NR: number(t, name), Arch: bpf.ArchX86_64}
		copy(d.Args[:], args)
		v, err := bpf.Run(prog, &d)
		if err != nil {
			t.Fatal(err)
		}
		return v&bpf.RetActionFull == bpf.RetAllow
	}
	for _, c := range []struct {
		name string
		args []uint64
		want bool
	}{
		{"getcwd", nil, true},
		{"socket", []uint64{1, 1}, true},
		{"socket", []uint64{2, 1}, false},
		{"socket", []uint64{40, 1}, false},
		{"mkdir", nil, false},
		{"unshare", nil, false},
		{"execve", nil, true},
		{"futex", nil, true},
		{"listen", nil, false},
	} {
		if got := passes(is, c.name, c.args...); got != c.want {
			t.Errorf("%s%v passes: %v", c.name, c.args, got)
		}
	}
	for _, name := range abi.Names("amd64") {
		some := bpf.Call(bpf.ArchX86_64, number(t, name))
		before, _ := bpf.Passes(was, some)
		if after, _ := bpf.Passes(is, some); after && !before {
			t.Errorf("%s passes, and did not before", name)
		}
	}
	if len(r.Refused) != 2 || r.Refused[0].Name != "socket" || r.Refused[0].Count != 5 || r.Refused[0].Errno != "EAFNOSUPPORT" || r.Refused[1].Name != "unshare" {
		t.Errorf("refused: %+v", r.Refused)
	}
	if len(r.Used)+len(r.Unused) < 150 || len(r.Unused) < 100 {
		t.Errorf("%d used, %d unused", len(r.Used), len(r.Unused))
	}
}

// TestListCannotWiden: a list that names what its profile does not have, or other arguments, lets
// nothing more through.
func TestListCannotWiden(t *testing.T) {
	list, err := seccomp.ParseList([]byte(`{"extends": "server", "allow": [{"names": ["mount", "clone3", "io_uring_setup"], "why": "x"}, {"names": ["socket"], "when": ["arg0 == 40", "arg0 & 0xff == 1"], "why": "x"}, {"names": ["clone"], "why": "x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range seccomp.Profiles() {
		for _, arch := range []string{"amd64", "arm64"} {
			was, is := compiled(t, seccomp.Options{Profile: profile, Arch: arch}), compiled(t, seccomp.Options{Profile: profile, Arch: arch, Only: list})
			for _, name := range abi.Names(arch) {
				nr, _ := abi.Number(name, arch)
				at := bpf.Call(bpf.AuditArch(arch), nr)
				before, _ := bpf.Passes(was, at)
				if after, _ := bpf.Passes(is, at); after && !before {
					t.Errorf("%s %s: %s passes", arch, profile, name)
				}
			}
			for _, p := range []bpf.Partial{at(arch, "socket").With(0, ^uint64(0), 40), at(arch, "clone").With(0, 0x10000000, 0x10000000)} {
				if ok, _ := bpf.Passes(is, p); ok {
					t.Errorf("%s %s: %+v passes", arch, profile, p)
				}
			}
		}
	}
}

func at(arch, name string) bpf.Partial {
	nr, _ := abi.Number(name, arch)
	return bpf.Call(bpf.AuditArch(arch), nr)
}

// TestParseList: what is no list is an error.
func TestParseList(t *testing.T) {
	for _, bad := range []string{
		``, `[]`, `{"allow": [{"names": ["no_such_call"], "why": "x"}]}`, `{"extends": "nobody", "allow": []}`, `{"alow": []}`, `{"allow": []} {}`,
		`{"allow": [{"names": ["read"], "when": ["arg6 == 1"], "why": "x"}]}`, `{"allow": [{"names": ["read"], "when": ["arg0 & 1 == 2"], "why": "x"}]}`,
		`{"allow": [{"names": ["read"], "when": ["arg0 == 1 && arg0 == 2"], "why": "x"}]}`, `{"allow": [{"names": ["read"], "when": ["arg0"], "why": "x"}]}`,
		`{"allow": [{"names": ["read"], "when": ["arg0 & 0 == 0"], "why": "x"}]}`,
	} {
		if l, err := seccomp.ParseList([]byte(bad)); err == nil {
			t.Errorf("%s is a list: %+v", bad, l)
		}
	}
}

// TestPolicyText: limits have room above what was used, and are never above policy's.
func TestPolicyText(t *testing.T) {
	run := runOf(t, record.Seen{Number: number(t, "read"), Count: 1})
	run.ByName, run.Reached, run.Lost, run.Late = true, []string{"pypi.org:443"}, 3, true
	r, err := Make(options(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[policies.work]", `seccomp.only = "/x.json"`, `limits.memory = "192MiB"`, "limits.pids = 40", `network.allow = ["pypi.org:443"]`} {
		if text := r.PolicyText("/x.json"); !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if _, err := policy.Parse([]byte(r.PolicyText("/x.json")), "/p", "work"); err != nil {
		t.Error(err)
	}
	if len(r.Warnings) != 2 {
		t.Errorf("%q", r.Warnings)
	}
	o := options()
	o.Policy.Limits.Memory, o.Policy.Limits.Pids = 128<<20, 32
	if r, err = Make(o, run); err != nil || r.Limits != (Used{}) {
		t.Errorf("%v: limits above policy's: %+v", err, r.Limits)
	}
	var b bytes.Buffer
	r.Work = "x\x1b[31m\n[policies.evil]"
	if err := r.Text(&b, "/x.json"); err != nil || strings.Contains(b.String(), "\x1b") || strings.Contains(b.String(), "\n[policies.evil]") {
		t.Errorf("%v %s", err, b.String())
	}
}
