package seccomp

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// engineFilter builds a filter of the shape that engines hand over: everything
// our profiles list and more, for three architectures.
func engineFilter(t *testing.T, errno uint, rules ...specs.LinuxSyscall) *specs.LinuxSeccomp {
	t.Helper()
	f := &specs.LinuxSeccomp{
		DefaultAction:   specs.ActErrno,
		DefaultErrnoRet: &errno,
		Architectures:   []specs.Arch{specs.ArchX86_64, specs.ArchX86, specs.ArchX32},
	}
	entries, err := Entries("server", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	plain := []string{"getdents", "ptrace", "process_vm_readv", "process_vm_writev", "io_uring_setup", "splice", "sendfile", "statx", "semget", "keyctl_of_the_future", "setreuid", "setregid"}
	for _, e := range entries {
		if e.Name != "socket" && e.Name != "clone" && e.Name != "clone3" && e.Name != "personality" {
			plain = append(plain, e.Name)
		}
	}
	f.Syscalls = append([]specs.LinuxSyscall{{Names: plain, Action: specs.ActAllow}}, rules...)
	return f
}

func rule(action specs.LinuxSeccompAction, name string, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: []string{name}, Action: action, Args: args}
}

func arg(i uint, op specs.LinuxSeccompOperator, v uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: i, Op: op, Value: v}
}

// The default filters of engines are wider than ours everywhere, so ours must
// come out unchanged and without a note, whatever shape their conditions have.
func TestEngineDefaults(t *testing.T) {
	clone := rule(specs.ActAllow, "clone", specs.LinuxSeccompArg{Index: 0, Op: specs.OpMaskedEqual, Value: 0x7e020000})
	nosys := uint(38)
	clone3 := specs.LinuxSyscall{Names: []string{"clone3"}, Action: specs.ActErrno, ErrnoRet: &nosys}
	personality := []specs.LinuxSyscall{}
	for _, v := range []uint64{0, 8, 0x20000, 0x20008, 0xffffffff} {
		personality = append(personality, rule(specs.ActAllow, "personality", arg(0, specs.OpEqualTo, v)))
	}
	with := func(more ...specs.LinuxSyscall) []specs.LinuxSyscall {
		return slices.Concat([]specs.LinuxSyscall{clone, clone3}, personality, more)
	}
	for name, f := range map[string]*specs.LinuxSeccomp{
		"Docker 20.10":                       engineFilter(t, 1, with(rule(specs.ActAllow, "socket"))...),
		"Docker 24, containerd 1.7":          engineFilter(t, 1, with(rule(specs.ActAllow, "socket", arg(0, specs.OpNotEqual, 40)))...),
		"Docker 2026, no AF_ALG or AF_VSOCK": engineFilter(t, 1, with(rule(specs.ActAllow, "socket", arg(0, specs.OpLessThan, 38)), rule(specs.ActAllow, "socket", arg(0, specs.OpEqualTo, 39)), rule(specs.ActAllow, "socket", arg(0, specs.OpGreaterThan, 40)))...),
		"Docker with CAP_SYS_ADMIN":          engineFilter(t, 1, rule(specs.ActAllow, "socket"), rule(specs.ActAllow, "clone"), rule(specs.ActAllow, "clone3")),
		"Podman without CAP_AUDIT_WRITE": engineFilter(t, 38, with(
			rule(specs.ActErrno, "socket", arg(0, specs.OpEqualTo, 16), arg(2, specs.OpEqualTo, 9)),
			rule(specs.ActAllow, "socket", arg(2, specs.OpNotEqual, 9)), rule(specs.ActAllow, "socket", arg(0, specs.OpNotEqual, 16)),
			rule(specs.ActAllow, "socket", arg(2, specs.OpNotEqual, 9)))...),
		"only terminal input refused": {DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{
			rule(specs.ActErrno, "ioctl", specs.LinuxSeccompArg{Index: 1, Op: specs.OpMaskedEqual, Value: 0xffffffff, ValueTwo: 0x5412}),
		}},
		"logging": {DefaultAction: specs.ActLog},
		"nothing": {},
	} {
		for _, p := range Profiles() {
			for _, kill := range []bool{false, true} {
				ours, err := OCI(Options{Profile: p, Arch: "amd64", Kill: kill})
				if err != nil {
					t.Fatal(err)
				}
				got, notes := Intersect(ours, f)
				if !reflect.DeepEqual(got, ours) || len(notes) > 0 {
					t.Errorf("%s with %s, kill %v: changed, notes %q", p, name, kill, notes)
				}
			}
		}
	}
}

// rulesFor lists a filter's rules for one call.
func rulesFor(f *specs.LinuxSeccomp, name string) []specs.LinuxSyscall {
	var out []specs.LinuxSyscall
	for _, s := range f.Syscalls {
		if slices.Contains(s.Names, name) {
			s.Names = []string{name}
			out = append(out, s)
		}
	}
	return out
}

// What a custom profile takes away stays away, and a note reports it.
func TestTighterIncoming(t *testing.T) {
	ours, err := OCI(Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	everything := func(rules ...specs.LinuxSyscall) *specs.LinuxSeccomp {
		return &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: rules}
	}
	two := uint(2)
	for _, c := range []struct {
		name     string
		incoming *specs.LinuxSeccomp
		call     string
		want     []specs.LinuxSyscall // nil: refused by default
		note     string
	}{
		{"a call refused", everything(specs.LinuxSyscall{Names: []string{"chmod"}, Action: specs.ActErrno, ErrnoRet: &two}), "chmod", nil, "does not allow them: chmod"},
		{
			"a plain call restricted", everything(rule(specs.ActErrno, "kill", arg(1, specs.OpEqualTo, 9))), "kill",
			[]specs.LinuxSyscall{rule(specs.ActAllow, "kill", arg(1, specs.OpNotEqual, 9))},
			"fewer arguments since the incoming filter allows fewer: kill",
		},
		{"a plain call restricted by an allowlist", engineFilter(t, 1, rule(specs.ActAllow, "socket", arg(0, specs.OpEqualTo, 1))), "clone", nil, "clone"},
		{"a killing rule", everything(rule(specs.ActKillProcess, "getcwd")), "getcwd", []specs.LinuxSyscall{rule(specs.ActKillProcess, "getcwd")}, "ends the process on these, kept: getcwd"},
		{"a killing rule for a call that we do not list", everything(rule(specs.ActKill, "ptrace")), "ptrace", []specs.LinuxSyscall{rule(specs.ActKillThread, "ptrace")}, "kept: ptrace"},
		{"a listener", everything(rule(specs.ActNotify, "getcwd")), "getcwd", nil, "listener"},
		{"a tracer", everything(rule(specs.ActTrace, "getcwd")), "getcwd", nil, "getcwd"},
		{"an operator that does not exist", everything(rule(specs.ActErrno, "getcwd", arg(0, "SCMP_CMP_ODD", 1))), "getcwd", nil, "getcwd"},
		{
			"conditions on one argument are alternatives", engineFilter(t, 1, rule(specs.ActAllow, "personality"), rule(specs.ActErrno, "getcwd", arg(0, specs.OpEqualTo, 1), arg(0, specs.OpEqualTo, 2))), "getcwd",
			nil, "getcwd",
		},
		{"io_uring allowed", everything(), "io_uring_setup", nil, ""},
	} {
		got, notes := Intersect(ours, c.incoming)
		r := rulesFor(got, c.call)
		r = slices.DeleteFunc(r, func(s specs.LinuxSyscall) bool { return s.Action == specs.ActErrno })
		if len(r) != len(c.want) || len(r) > 0 && !reflect.DeepEqual(r, c.want) {
			t.Errorf("%s: %s has rules %+v, want %+v", c.name, c.call, r, c.want)
		}
		if all := strings.Join(notes, "\n"); !strings.Contains(all, c.note) {
			t.Errorf("%s: notes %q do not state %q", c.name, all, c.note)
		}
	}
}

// A socket rule of the incoming filter and ours combine argument by argument.
func TestSocketCombined(t *testing.T) {
	ours, err := OCI(Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	incoming := &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{rule(specs.ActErrno, "socket", arg(0, specs.OpGreaterThan, 1))}}
	got, notes := Intersect(ours, incoming)
	if len(notes) != 1 || !strings.Contains(notes[0], "socket") {
		t.Errorf("notes %q", notes)
	}
	for _, c := range []struct {
		family, typ, proto uint64
		want               bool
	}{{1, 1, 0, true}, {1, 2, 0, true}, {1, 3, 0, false}, {2, 1, 6, false}, {16, 3, 0, false}, {1<<32 | 1, 1, 0, false}, {0, 1, 0, false}} {
		if allowsCall(got, "socket", [6]uint64{c.family, c.typ, c.proto}) != c.want {
			t.Errorf("socket(%d, %d, %d): want %v; rules %+v", c.family, c.typ, c.proto, c.want, rulesFor(got, "socket"))
		}
	}
}

// A default of KILL is kept, and does not turn our soft refusals of calls that
// the incoming filter allows into kills.
func TestIncomingKillsByDefault(t *testing.T) {
	ours, err := OCI(Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	incoming := engineFilter(t, 1, rule(specs.ActAllow, "clone"), rule(specs.ActAllow, "clone3"), rule(specs.ActAllow, "socket"))
	incoming.DefaultAction, incoming.DefaultErrnoRet = specs.ActKillProcess, nil
	got, notes := Intersect(ours, incoming)
	if got.DefaultAction != specs.ActKillProcess || len(notes) == 0 || !strings.Contains(notes[0], "KILL_PROCESS") {
		t.Errorf("default %s, notes %q", got.DefaultAction, notes)
	}
	for _, name := range []string{"clone3", "io_uring_setup", "ptrace", "ioctl", "socket"} {
		r := rulesFor(got, name)
		if len(r) == 0 || r[len(r)-1].Action != specs.ActErrno {
			t.Errorf("%s: the incoming filter allows it and ours answers an errno, the result has %+v", name, r)
		}
	}
	if r := rulesFor(got, "mount"); len(r) != 0 {
		t.Errorf("mount: both refuse it, the incoming filter by killing; the result has %+v", r)
	}
	if r := rulesFor(got, "getcwd"); len(r) != 1 || r[0].Action != specs.ActAllow {
		t.Errorf("getcwd: %+v", r)
	}
}

// Thousands of rules for one call are not compared one by one: it is refused.
func TestTooManyRules(t *testing.T) {
	ours, err := OCI(Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	incoming := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno}
	for i := range uint64(100000) {
		incoming.Syscalls = append(incoming.Syscalls, rule(specs.ActAllow, "ioctl", arg(1, specs.OpEqualTo, i)), rule(specs.ActAllow, "getcwd", arg(1, specs.OpNotEqual, i)))
	}
	incoming.Syscalls = append(incoming.Syscalls, rule(specs.ActKillProcess, "getcwd", arg(0, specs.OpEqualTo, 7)), rule(specs.ActAllow, "chdir"))
	got, notes := Intersect(ours, incoming)
	for name, want := range map[string][]specs.LinuxSyscall{"ioctl": nil, "getcwd": {rule(specs.ActKillProcess, "getcwd")}, "chdir": {rule(specs.ActAllow, "chdir")}} {
		if r := rulesFor(got, name); len(r) != len(want) || len(r) > 0 && !reflect.DeepEqual(r, want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if all := strings.Join(notes, "\n"); !strings.Contains(all, "cannot be combined exactly") || !strings.Contains(all, "getcwd, ioctl") {
		t.Errorf("notes %q", notes)
	}
}
