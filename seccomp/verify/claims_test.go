package verify

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
)

func embedded(t *testing.T, profile string) *specs.LinuxSeccomp {
	t.Helper()
	s, err := seccomp.OCI(seccomp.Options{Profile: profile, Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compile(t *testing.T, s *specs.LinuxSeccomp) []bpf.Insn {
	t.Helper()
	prog, err := compiler.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// What a jail's program meets, on both architectures.
func TestProfiles(t *testing.T) {
	for _, profile := range append(seccomp.Profiles(), "service"+seccomp.SetGID) {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, kill := range []bool{false, true} {
				prog, err := compiler.Program(profile, arch, kill)
				if err != nil {
					t.Fatal(err)
				}
				res, err := Profile([][]bpf.Insn{prog}, profile, arch)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range res {
					if !r.Holds {
						t.Errorf("%s %s: %s: %s", profile, arch, r.Claim, r.Detail)
					}
				}
			}
		}
	}
}

// Every claim must be able to fail: each filter here breaks one.
func TestClaimsFail(t *testing.T) {
	eq := func(index uint, v uint64) specs.LinuxSeccompArg {
		return specs.LinuxSeccompArg{Index: index, Value: v, Op: specs.OpEqualTo}
	}
	ne := func(index uint, v uint64) specs.LinuxSeccompArg {
		return specs.LinuxSeccompArg{Index: index, Value: v, Op: specs.OpNotEqual}
	}
	for _, c := range []struct {
		claim string
		call  string
		args  []specs.LinuxSeccompArg
	}{
		{"io_uring", "io_uring_enter", nil},
		{"namespace", "setns", nil},
		{"namespace", "clone", []specs.LinuxSeccompArg{eq(0, 0x10000011)}},
		{"namespace", "clone", []specs.LinuxSeccompArg{eq(0, 0x10000011|1<<40)}},
		{"dangerous", "kcmp", []specs.LinuxSeccompArg{eq(0, 0)}},
		{"a tracer suspends", "ptrace", nil},
		{"a tracer suspends", "ptrace", []specs.LinuxSeccompArg{eq(0, 0x4206), eq(3, 1<<21)}},
		{"a tracer suspends", "ptrace", []specs.LinuxSeccompArg{eq(0, 0x4200|1<<33), eq(3, 1<<21)}},
		{"a tracer suspends", "ptrace", []specs.LinuxSeccompArg{eq(0, 0x420c)}},
		{"a tracer suspends", "ptrace", []specs.LinuxSeccompArg{eq(0, 6), eq(2, 904)}},
		{"a tracer suspends", "ptrace", []specs.LinuxSeccompArg{eq(0, 0x4205), eq(2, 0x403)}},
		{"scheduling policy", "sched_setattr", nil},
		{"scheduling policy", "ioprio_set", []specs.LinuxSeccompArg{eq(2, 2<<13)}},
		{"socket family", "socket", []specs.LinuxSeccompArg{eq(0, 38)}},
		{"socket family", "socket", []specs.LinuxSeccompArg{ne(0, 40)}},
		{"raw sockets", "socket", []specs.LinuxSeccompArg{eq(0, 2), eq(1, 1), eq(2, 262)}},
		{"raw sockets", "socket", []specs.LinuxSeccompArg{eq(0, 2), eq(1, 3)}},
		{"raw sockets", "socket", []specs.LinuxSeccompArg{eq(0, 16), eq(1, 3), eq(2, 12)}},
		{"set-id", "chmod", []specs.LinuxSeccompArg{eq(1, 0o4755)}},
		{"set-id", "openat", []specs.LinuxSeccompArg{eq(3, 0o2644)}},
		{"set-id", "mknodat", []specs.LinuxSeccompArg{eq(2, 0o020666)}},
		{"ioctl", "ioctl", []specs.LinuxSeccompArg{ne(1, 0x5412)}},
		{"setsockopt", "setsockopt", []specs.LinuxSeccompArg{eq(1, 282)}},
		{"setsockopt", "setsockopt", []specs.LinuxSeccompArg{eq(1, 0), eq(2, 35)}},
		{"setsockopt", "setsockopt", []specs.LinuxSeccompArg{eq(1, 41), eq(2, 46)}},
		{"setsockopt", "setsockopt", []specs.LinuxSeccompArg{eq(1, 1), eq(2, 25)}},
		{"dangerous", "fadvise64", []specs.LinuxSeccompArg{eq(3, 4)}},
		{"dangerous", "syncfs", nil},
		{"setsockopt", "setsockopt", []specs.LinuxSeccompArg{ne(2, 31)}},
		{"MSG_OOB", "recvmsg", []specs.LinuxSeccompArg{eq(2, 0x41)}},
		{"prctl", "prctl", []specs.LinuxSeccompArg{eq(0, 35)}},
		{"prctl", "personality", []specs.LinuxSeccompArg{eq(0, 8)}},
		{"high bits", "ioctl", []specs.LinuxSeccompArg{eq(1, 0x5412|1<<63)}},
		{"kernelCTF", "bpf", nil},
		{"RLIMIT_CORE", "prlimit64", []specs.LinuxSeccompArg{eq(1, 4)}},
		{"RLIMIT_CORE", "prlimit64", []specs.LinuxSeccompArg{eq(1, 4), {Index: 2, Value: 0xffffffff, Op: specs.OpMaskedEqual}}},
		{"RLIMIT_CORE", "setrlimit", nil},
		{"huge pages", "mmap", []specs.LinuxSeccompArg{eq(3, 0x40022)}},
		{"huge pages", "memfd_create", nil},
		{"huge pages", "shmget", []specs.LinuxSeccompArg{eq(2, 0o4000)}},
		{"futex", "futex", []specs.LinuxSeccompArg{eq(1, 11)}},
		{"futex", "futex", []specs.LinuxSeccompArg{eq(1, 12|128)}},
		{"futex", "futex_requeue", nil},
		{"merged", "madvise", []specs.LinuxSeccompArg{eq(2, 12)}},
		{"merged", "prctl", []specs.LinuxSeccompArg{eq(0, 67)}},
		{"processor time", "timer_create", []specs.LinuxSeccompArg{eq(0, 3)}},
		{"processor time", "clock_nanosleep", []specs.LinuxSeccompArg{eq(0, 0xfffffffa)}},
		{"buffers", "setsockopt", []specs.LinuxSeccompArg{eq(1, 1), eq(2, 8)}},
		{"socket filter", "setsockopt", []specs.LinuxSeccompArg{eq(1, 1), eq(2, 26)}},
		{"attributes", "fsetxattr", nil},
		{"no filter of a program's own", "seccomp", []specs.LinuxSeccompArg{eq(0, 1), eq(1, 2)}},
	} {
		f := embedded(t, "default")
		add := specs.LinuxSyscall{Names: []string{c.call}, Action: specs.ActAllow, Args: c.args}
		if c.claim == "high bits" { // the refusal of the rest is in its place
			f.Syscalls = slices.DeleteFunc(f.Syscalls, func(s specs.LinuxSyscall) bool { return slices.Contains(s.Names, c.call) })
		}
		f.Syscalls = slices.DeleteFunc(f.Syscalls, func(s specs.LinuxSyscall) bool {
			return slices.Contains(s.Names, c.call) && s.Action == specs.ActErrno
		})
		f.Syscalls = append(f.Syscalls, add)
		p, err := newStack([][]bpf.Insn{compile(t, f)}, "", "amd64")
		if err != nil {
			t.Fatal(err)
		}
		res, err := p.all()
		if err != nil {
			t.Fatalf("%s %v: %v", c.call, c.args, err)
		}
		i := slices.IndexFunc(res, func(r Result) bool { return strings.Contains(r.Claim, c.claim) })
		if i < 0 {
			t.Fatalf("no claim about %s", c.claim)
		}
		if res[i].Holds {
			t.Errorf("with %s %v allowed it still holds that %s", c.call, c.args, res[i].Claim)
		}
	}

	// Programs that look at nothing, and one that lists a call too many.
	open := [][]bpf.Insn{{{Code: 0x06, K: bpf.RetAllow}}}
	res, err := Profile(open, "default", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res {
		if r.Holds && !strings.Contains(r.Claim, "high bits") {
			t.Errorf("with a filter that allows all it still holds that %s", r.Claim)
		}
	}
	more := embedded(t, "default")
	more.Syscalls = append(more.Syscalls, specs.LinuxSyscall{Names: []string{"getsid"}, Action: specs.ActAllow})
	res, err = Profile([][]bpf.Insn{compile(t, more)}, "default", "amd64")
	if err != nil || res[0].Holds || !strings.Contains(res[0].Detail, "getsid") || res[1].Holds {
		t.Errorf("a call that the profile does not list: %+v, %v", res[:2], err)
	}
	// A program may load filters under the profile for that alone.
	loads := embedded(t, "server")
	res, err = Profile([][]bpf.Insn{compile(t, loads)}, "strict", "amd64")
	i := slices.IndexFunc(res, func(r Result) bool { return strings.Contains(r.Claim, "no program loads") })
	if err != nil || i < 0 || res[i].Holds || !strings.Contains(res[i].Detail, "seccomp passes, prctl passes with PR_SET_SECCOMP") {
		t.Errorf("filters of a program's own: %d of %+v, %v", i, res, err)
	}
	// The same of tracing.
	res, err = Profile([][]bpf.Insn{compile(t, embedded(t, "debug"))}, "default", "amd64")
	i = slices.IndexFunc(res, func(r Result) bool { return strings.Contains(r.Claim, "no program traces") })
	if err != nil || i < 0 || res[i].Holds || !strings.Contains(res[i].Detail, "process_vm_writev passes, prctl passes with PR_SET_PTRACER") {
		t.Errorf("tracing: %d of %+v, %v", i, res, err)
	}
	// A stack holds what one of its filters does.
	res, err = Profile([][]bpf.Insn{open[0], compile(t, embedded(t, "default"))}, "default", "amd64")
	for _, r := range res {
		if err != nil || !r.Holds {
			t.Errorf("%+v, %v", r, err)
		}
	}
	for _, bad := range [][2]string{{"none", "amd64"}, {"default", "riscv64"}} {
		if _, err := Profile(open, bad[0], bad[1]); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// dockerLike has the shape of Docker's default profiles where the table of
// entry points looks.
func dockerLike(vsock, uring bool) *specs.LinuxSeccomp {
	one := uint(1)
	f := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: &one, Architectures: []specs.Arch{specs.ArchX86_64}}
	allow := func(args []specs.LinuxSeccompArg, names ...string) {
		f.Syscalls = append(f.Syscalls, specs.LinuxSyscall{Names: names, Action: specs.ActAllow, Args: args})
	}
	allow(nil, "read", "write", "setsockopt", "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "splice", "sendfile")
	allow([]specs.LinuxSeccompArg{{Index: 0, Value: 0x7e020000, Op: specs.OpMaskedEqual}}, "clone")
	if uring {
		allow(nil, "io_uring_setup", "io_uring_enter", "io_uring_register")
	}
	if vsock {
		allow(nil, "socket")
	} else {
		allow([]specs.LinuxSeccompArg{{Index: 0, Value: 40, Op: specs.OpNotEqual}}, "socket")
	}
	return f
}

func TestKernelCTF(t *testing.T) {
	all, err := kernelCTF()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range all {
		n += e.Submissions
		for _, w := range e.Ways {
			if _, ok := abi.Number(w.Call, "amd64"); !ok {
				t.Errorf("%s: no call %s", e.Name, w.Call)
			}
		}
	}
	if n != 100 {
		t.Errorf("the table counts %d submissions", n)
	}
	open := func(f *specs.LinuxSeccomp) int {
		prog := compile(t, f)
		o, err := OpenEntries([][]bpf.Insn{prog}, "amd64")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, e := range o {
			n += e.Submissions
		}
		return n
	}
	for _, profile := range seccomp.Profiles() {
		if n := open(embedded(t, profile)); n > 2 {
			t.Errorf("profile %s leaves %d of 100 open", profile, n)
		}
	}
	// The same table finds what is known of others, so that it can count.
	everything := &specs.LinuxSeccomp{
		DefaultAction: specs.ActAllow, Architectures: []specs.Arch{specs.ArchX86_64},
		Syscalls: []specs.LinuxSyscall{{Names: []string{"reboot"}, Action: specs.ActKillProcess}},
	}
	for want, f := range map[int]*specs.LinuxSeccomp{
		100: everything,
		24:  dockerLike(true, true), // Docker 20.10
		// Docker 25 means to refuse AF_VSOCK with "family != 40", which a
		// high bit in the family dodges: its 2 submissions stay open.
		19: dockerLike(false, false),
	} {
		if n := open(f); n != want {
			t.Errorf("%d open, want %d", n, want)
		}
	}
}

// TestSetGID: set-group-ID bits pass in the variant alone, and set-user-ID bits nowhere. No policy can name the variant.
func TestSetGID(t *testing.T) {
	const variant = "service" + seccomp.SetGID
	if slices.Contains(seccomp.Profiles(), variant) {
		t.Errorf("policy can name %s", variant)
	}
	for _, profile := range append(seccomp.Profiles(), variant) {
		prog, err := compiler.Program(profile, "amd64", false)
		if err != nil {
			t.Fatal(err)
		}
		p, err := newStack([][]bpf.Insn{prog}, profile, "amd64")
		if err != nil {
			t.Fatal(err)
		}
		for name, arg := range map[string]int{"chmod": 1, "fchmod": 1, "creat": 1, "fchmodat": 2, "mknod": 1, "mknodat": 2, "open": 2, "openat": 3} {
			for mode, want := range map[uint64]bool{0o2775: profile == variant, 0o4755: false, 0o6755: false} {
				call, _ := p.call(name)
				call = call.With(arg, low, mode)
				if strings.HasPrefix(name, "open") {
					call = call.With(arg-1, low, 0o101)
				}
				got, err := p.passes(call)
				if err != nil || got != want && (want || profile != "strict") {
					t.Errorf("%s: %s with mode %o passes: %v (%v)", profile, name, mode, got, err)
				}
			}
		}
	}
}
