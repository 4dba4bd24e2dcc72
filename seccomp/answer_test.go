package seccomp

import (
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// answers is what a filter answers to a call, as the kernel does that is given rules in the order of libseccomp's
// tree: a rule for certain arguments counts before one for the rest, and that before the default.
func answers(f *specs.LinuxSeccomp, name string, args [6]uint64) answer {
	s := read(f)
	r := s.region(name)
	for _, a := range r.allow {
		if a.matches(args) && !r.whole {
			return answer{action: specs.ActAllow}
		}
	}
	for _, rest := range []bool{false, true} {
		for _, x := range r.refuse {
			if x.rest == rest && x.matches(args) {
				return x.answer
			}
		}
	}
	return s.def
}

func (a args) matches(v [6]uint64) bool {
	for i := range a {
		if !a[i].has(v[i]) {
			return false
		}
	}
	return true
}

// TestErrnoOfIncoming: what ours allows and the incoming filter refuses is refused in its way.
func TestErrnoOfIncoming(t *testing.T) {
	ours, err := OCI(Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	errno := func(n uint, name string, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
		r := rule(specs.ActErrno, name, args...)
		r.ErrnoRet = &n
		return r
	}
	all := func(rules ...specs.LinuxSyscall) *specs.LinuxSeccomp {
		return &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: rules}
	}
	thirteen := uint(13)
	few := func(rules ...specs.LinuxSyscall) *specs.LinuxSeccomp {
		return &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: &thirteen, Syscalls: rules}
	}
	is := func(n uint) answer { return answer{specs.ActErrno, n} }
	pass := answer{action: specs.ActAllow}
	type args = [6]uint64
	for _, c := range []struct {
		what     string
		incoming *specs.LinuxSeccomp
		call     string
		args     args
		want     answer
	}{
		{"an errno", all(errno(5, "mkdir")), "mkdir", args{}, is(5)},
		{"no errno", all(rule(specs.ActErrno, "mkdir")), "mkdir", args{}, is(ePERM)},
		{"an argument", all(errno(22, "mkdir", arg(1, specs.OpEqualTo, 0o777))), "mkdir", args{1, 0o777}, is(22)},
		{"another argument", all(errno(22, "mkdir", arg(1, specs.OpEqualTo, 0o777))), "mkdir", args{1, 0o700}, pass},
		{"a tracer", all(rule(specs.ActTrace, "mkdir")), "mkdir", args{}, is(eNOSYS)},
		{"killed", all(rule(specs.ActKillProcess, "mkdir")), "mkdir", args{}, answer{action: specs.ActKillProcess}},
		{"logged", all(rule(specs.ActLog, "mkdir")), "mkdir", args{}, pass},
		{"the default", few(rule(specs.ActAllow, "statx")), "mkdir", args{}, is(13)},
		{"the default for the other arguments", few(rule(specs.ActAllow, "mkdir", arg(1, specs.OpEqualTo, 0o700)), rule(specs.ActAllow, "statx")), "mkdir", args{1, 0o777}, is(13)},
		{"those arguments", few(rule(specs.ActAllow, "mkdir", arg(1, specs.OpEqualTo, 0o700)), rule(specs.ActAllow, "statx")), "mkdir", args{1, 0o700}, pass},
		{"a call newer than the filter", few(rule(specs.ActAllow, "read")), "faccessat2", args{}, is(eNOSYS)},
		{"a rule of ours, refused as a whole", all(errno(5, "socket")), "socket", args{1, 1}, is(5)},
		{"a rule of ours, and an argument", all(errno(13, "socket", arg(0, specs.OpEqualTo, 1))), "socket", args{1, 1}, is(13)},
		{"what ours refuses is ours", all(errno(13, "socket", arg(0, specs.OpEqualTo, 17))), "socket", args{17, 3}, is(97)},
		{"what ours refuses as a whole is ours", all(errno(5, "mount")), "mount", args{}, is(eNOSYS)},
		{"where the default kills", &specs.LinuxSeccomp{DefaultAction: specs.ActKillProcess, Syscalls: []specs.LinuxSyscall{errno(5, "mkdir")}}, "mkdir", args{}, is(5)},
	} {
		got, _ := Intersect(ours, c.incoming)
		if a := answers(got, c.call, c.args); a != c.want {
			t.Errorf("%s: %s%v answers %+v, want %+v; rules %+v", c.what, c.call, c.args, a, c.want, rulesFor(got, c.call))
		}
	}
}

// TestCheck: what runc refuses of a filter is refused.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		what string
		s    specs.LinuxSeccomp
		ok   bool
	}{
		{"a filter", *engineFilter(t, 1, rule(specs.ActAllow, "read", arg(0, specs.OpLessEqual, 1))), true},
		{"an unknown action", specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{rule("SCMP_ACT_ODD", "read")}}, false},
		{"no action", specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{rule("", "read")}}, false},
		{"an unknown default", specs.LinuxSeccomp{DefaultAction: "allow"}, false},
		{"no default", specs.LinuxSeccomp{Syscalls: []specs.LinuxSyscall{rule(specs.ActErrno, "read")}}, false},
		{"a listener", specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{rule(specs.ActNotify, "read")}}, false},
		{"an unknown operator", specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{rule(specs.ActErrno, "read", arg(0, "SCMP_CMP_ODD", 1))}}, false},
	} {
		if err := Check(&c.s); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
