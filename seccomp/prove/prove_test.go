//go:build cgo

package prove

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	libseccomp "github.com/seccomp/libseccomp-golang"

	"agentjail.dev/seccomp"
)

func TestProve(t *testing.T) {
	for _, profile := range seccomp.Profiles() {
		for _, arch := range []string{"amd64", "arm64"} {
			res, err := Prove(profile, arch)
			if err != nil {
				t.Fatal(err)
			}
			if len(res) == 0 {
				t.Error("no claims")
			}
			for _, r := range res {
				if !r.Holds {
					t.Errorf("%s %s: %s: %s", profile, arch, r.Claim, r.Detail)
				}
			}
		}
	}
}

// Every claim must be able to fail: each filter here breaks one.
func TestProveFails(t *testing.T) {
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
		{"dangerous", "ptrace", []specs.LinuxSeccompArg{eq(0, 0)}},
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
		{"setsockopt", "setsockopt", []specs.LinuxSeccompArg{ne(2, 31)}},
		{"MSG_OOB", "recvmsg", []specs.LinuxSeccompArg{eq(2, 0x41)}},
		{"prctl", "prctl", []specs.LinuxSeccompArg{eq(0, 35)}},
		{"prctl", "personality", []specs.LinuxSeccompArg{eq(0, 0x20000)}},
		{"high bits", "ioctl", []specs.LinuxSeccompArg{eq(1, 0x5412|1<<63)}},
		{"kernelCTF", "bpf", nil},
	} {
		f := embedded(t, "default", false)
		add := specs.LinuxSyscall{Names: []string{c.call}, Action: specs.ActAllow, Args: c.args}
		if c.claim == "high bits" { // the refusal of the rest is in its place
			f.Syscalls = slices.DeleteFunc(f.Syscalls, func(s specs.LinuxSyscall) bool { return slices.Contains(s.Names, c.call) })
		}
		f.Syscalls = slices.DeleteFunc(f.Syscalls, func(s specs.LinuxSyscall) bool {
			return slices.Contains(s.Names, c.call) && s.Action == specs.ActErrno
		})
		f.Syscalls = append(f.Syscalls, add)
		res, err := Check(f, false)
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

	f := dockerLike(true, false)
	for _, c := range []struct {
		extra specs.Arch
		claim func(*prover) (Result, error)
	}{
		{specs.ArchX86, (*prover).foreign},
		{specs.ArchX32, (*prover).x32},
	} {
		wide := *f
		wide.Architectures = append([]specs.Arch{c.extra}, f.Architectures...)
		prog, err := Compile(&wide, specs.ArchX86_64, false)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := c.claim(&prover{prog: prog, arch: specs.ArchX86_64}); err != nil || r.Holds {
			t.Errorf("with %s: %v, %v", c.extra, r, err)
		}
		if _, err := Check(&wide, false); err == nil {
			t.Errorf("a filter that also lists %s is accepted", c.extra)
		}
	}
	more := *f
	more.Syscalls = append(slices.Clone(f.Syscalls), specs.LinuxSyscall{Names: []string{"getsid"}, Action: specs.ActAllow})
	if r, err := (&prover{prog: compile(t, &more), arch: specs.ArchX86_64}).unlisted(f); err != nil || r.Holds {
		t.Errorf("a call that the filter does not list: %v, %v", r, err)
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
	all, err := KernelCTF()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range all {
		n += e.Submissions
		for _, w := range e.Ways {
			if _, err := libseccomp.GetSyscallFromName(w.Call); err != nil {
				t.Errorf("%s: call %s: %v", e.Name, w.Call, err)
			}
		}
	}
	if n != 100 {
		t.Errorf("the table counts %d submissions", n)
	}
	open := func(f *specs.LinuxSeccomp) int {
		prog := compile(t, f)
		o, err := OpenEntries(prog, specs.ArchX86_64)
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
		if n := open(embedded(t, profile, false)); n > 2 {
			t.Errorf("profile %s leaves %d of 100 open", profile, n)
		}
	}
	// The same table finds what is known of others, so that it can count.
	everything := &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Architectures: []specs.Arch{specs.ArchX86_64},
		Syscalls: []specs.LinuxSyscall{{Names: []string{"reboot"}, Action: specs.ActKill}}}
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

// Every listed name must be a call of that architecture: a misspelt one would
// be ignored by delegates without a word.
func TestNames(t *testing.T) {
	for _, profile := range seccomp.Profiles() {
		for arch, scmp := range map[string]libseccomp.ScmpArch{"amd64": libseccomp.ArchAMD64, "arm64": libseccomp.ArchARM64} {
			entries, err := seccomp.Entries(profile, arch)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				nr, err := libseccomp.GetSyscallFromNameByArch(e.Name, scmp)
				if err != nil || nr < 0 {
					if e.Errno != "" {
						continue // a refused call may be newer than this library
					}
					t.Errorf("%s %s: %s: number %d, %v", profile, arch, e.Name, nr, err)
				}
			}
		}
	}
}

// Both shapes of the compiled filter answer alike; the binary tree is what
// runc 1.2 and later load.
func TestTreeAgrees(t *testing.T) {
	g := gen{newRand(7)}
	f := embedded(t, "default", false)
	list := compile(t, f)
	tree, err := Compile(f, specs.ArchX86_64, true)
	if err != nil {
		t.Fatal(err)
	}
	for range 20000 {
		name := pick(g, genNames)
		args := g.args(name, f)
		if a, b := verdict(t, list, name, args), verdict(t, tree, name, args); a != b {
			t.Fatalf("%s%#x: %#x as a list, %#x as a tree", name, args, a, b)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	f := embedded(b, "default", false)
	for b.Loop() {
		compile(b, f)
	}
}

// What Docker's default costs to compile: 308 calls on three architectures.
func BenchmarkCompileDockerLike(b *testing.B) {
	f := dockerLike(true, true)
	f.Architectures = []specs.Arch{specs.ArchX86_64, specs.ArchX86, specs.ArchX32}
	var names []string
	for nr := range libseccomp.ScmpSyscall(334) {
		if n, err := nr.GetNameByArch(libseccomp.ArchAMD64); err == nil && len(names) < 295 {
			names = append(names, n)
		}
	}
	f.Syscalls[0].Names = names
	b.Log(fmt.Sprint(len(names), " calls"))
	for b.Loop() {
		compile(b, f)
	}
}
