//go:build cgo

package prove

import (
	"fmt"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	libseccomp "github.com/seccomp/libseccomp-golang"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
)

func TestProve(t *testing.T) {
	for _, profile := range append(seccomp.Profiles(), "service"+seccomp.SetGID) {
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

// What the table of package abi states is what libseccomp knows.
func TestNumbers(t *testing.T) {
	for arch, scmp := range map[string]libseccomp.ScmpArch{"amd64": libseccomp.ArchAMD64, "arm64": libseccomp.ArchARM64} {
		same := 0
		for _, name := range abi.Names(arch) {
			nr, err := libseccomp.GetSyscallFromNameByArch(name, scmp)
			if err != nil {
				continue // newer than this library
			}
			if got, _ := abi.Number(name, arch); int64(got) != int64(nr) {
				t.Errorf("%s on %s: %d, libseccomp states %d", name, arch, got, nr)
			}
			same++
		}
		if same < 300 {
			t.Errorf("%s: only %d names in common", arch, same)
		}
	}
}

// stacked holds the outer filter, as a delegate's libseccomp compiles it with
// what the init step needs added, together with the second against what the
// second states: the first may only let more pass.
func stacked(t *testing.T, g gen, filter *specs.LinuxSeccomp, names []string, rounds int) {
	t.Helper()
	arch := map[specs.Arch]string{specs.ArchX86_64: "amd64", specs.ArchAARCH64: "arm64"}[filter.Architectures[0]]
	entry, _ := seccomp.WithEntry(filter)
	first, err := Compile(entry, filter.Architectures[0], g.IntN(2) == 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, show(entry))
	}
	second, err := compiler.Compile(filter)
	if err != nil {
		t.Fatalf("%v\n%s", err, show(filter))
	}
	audit := map[string]uint32{"amd64": bpf.ArchX86_64, "arm64": bpf.ArchAARCH64}[arch]
	for _, name := range names {
		nr, ok := abi.Number(name, arch)
		if !ok {
			continue
		}
		for range rounds {
			d := &bpf.Data{NR: nr, Arch: audit, Args: g.args(name, filter, entry)}
			both, err := bpf.Stacked([][]bpf.Insn{first, second}, d)
			if err != nil {
				t.Fatal(err)
			}
			if alone, err := bpf.Run(second, d); err != nil || both != alone {
				t.Fatalf("%s%#x: both filters state %#x, the second %#x, %v\n%s", name, d.Args, both, alone, err, show(onlyCall(filter, name)))
			}
		}
	}
	for range 200 {
		d := &bpf.Data{NR: g.Uint32(), Arch: audit ^ 1<<g.IntN(32), Args: g.args("read")}
		if g.IntN(2) == 0 {
			d.NR, d.Arch = d.NR&0x1ff|bpf.X32Bit, bpf.ArchX86_64
		}
		if v, err := bpf.Stacked([][]bpf.Insn{first, second}, d); (arch == "amd64" || d.Arch != audit) && (err != nil || v != bpf.RetKillProcess) {
			t.Fatalf("number %#x of architecture %#x: %#x, %v", d.NR, d.Arch, v, err)
		}
	}
}

// What a program in a jail meets is what its profile states, to the errno, for
// all calls.
func TestStacked(t *testing.T) {
	for _, profile := range seccomp.Profiles() {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, kill := range []bool{false, true} {
				filter, err := seccomp.OCI(seccomp.Options{Profile: profile, Arch: arch, Kill: kill})
				if err != nil {
					t.Fatal(err)
				}
				stacked(t, gen{newRand(9)}, filter, abi.Names(arch), 40)
			}
		}
	}
}

// The same with whatever an engine requests. The engine's own filter may make
// libseccomp stricter than its rules are (see declared), so only what passes is
// compared.
func TestStackedIncoming(t *testing.T) {
	for seed := range uint64(400) {
		g := gen{newRand(seed)}
		incoming := g.filter()
		if _, err := Compile(incoming, specs.ArchX86_64, false); err != nil {
			continue
		}
		filter, _ := seccomp.Intersect(embedded(t, pick(g, seccomp.Profiles()), g.IntN(3) == 0), incoming)
		entry, _ := seccomp.WithEntry(filter)
		first, second, alone := compile(t, entry), exactly(t, filter), compile(t, filter)
		for _, name := range append(genNames, "landlock_restrict_self", "seccomp", "mmap", "close_range") {
			for range 20 {
				args := g.args(name, filter, incoming)
				f, s, a := verdict(t, first, name, args), verdict(t, second, name, args), verdict(t, alone, name, args)
				if rank(f) == 0 && rank(s) == 0 && rank(a) > 0 {
					t.Fatalf("seed %d: %s%#x passes both filters; without the init step it gets %#x\n%s", seed, name, args, a, show(onlyCall(filter, name)))
				}
				if rank(a) == 0 && (rank(f) > 0 || rank(s) > 0) {
					t.Fatalf("seed %d: %s%#x passes without the init step; now it gets %#x and %#x\n%s", seed, name, args, f, s, show(onlyCall(filter, name)))
				}
			}
		}
	}
}

func exactly(t *testing.T, s *specs.LinuxSeccomp) []bpf.Insn {
	t.Helper()
	prog, err := compiler.Compile(s)
	if err != nil {
		t.Fatalf("%v\n%s", err, show(s))
	}
	return prog
}

func BenchmarkCompile(b *testing.B) {
	f := embedded(b, "default", false)
	for b.Loop() {
		compile(b, f)
	}
}

// What Docker's default costs to compile: 308 calls on three architectures.
func BenchmarkCompileDockerLike(b *testing.B) {
	f := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, Architectures: []specs.Arch{specs.ArchX86_64, specs.ArchX86, specs.ArchX32}}
	var names []string
	for nr := range libseccomp.ScmpSyscall(334) {
		if n, err := nr.GetNameByArch(libseccomp.ArchAMD64); err == nil && len(names) < 295 {
			names = append(names, n)
		}
	}
	f.Syscalls = []specs.LinuxSyscall{
		{Names: names, Action: specs.ActAllow},
		{Names: []string{"clone"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{{Index: 0, Value: 0x7e020000, Op: specs.OpMaskedEqual}}},
	}
	b.Log(fmt.Sprint(len(names), " calls"))
	for b.Loop() {
		compile(b, f)
	}
}
