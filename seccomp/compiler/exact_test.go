package compiler

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/bpf/filtertest"
)

// each calls f for every filter of the profiles.
func each(t *testing.T, f func(t *testing.T, s *specs.LinuxSeccomp, profile, arch string, kill bool)) {
	for _, profile := range seccomp.Profiles() {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, kill := range []bool{false, true} {
				name := profile + " " + arch
				if kill {
					name += " kill"
				}
				t.Run(name, func(t *testing.T) {
					s, err := seccomp.OCI(seccomp.Options{Profile: profile, Arch: arch, Kill: kill})
					if err != nil {
						t.Fatal(err)
					}
					f(t, s, profile, arch, kill)
				})
			}
		}
	}
}

func compile(t testing.TB, s *specs.LinuxSeccomp) []bpf.Insn {
	t.Helper()
	prog, err := Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

func run(t testing.TB, prog []bpf.Insn, d *bpf.Data) uint32 {
	t.Helper()
	v, err := bpf.Run(prog, d)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// decides reads a section by itself: every rule is matched with the whole 64-bit
// arguments, and the strictest answer counts.
func decides(s *specs.LinuxSeccomp, name string, args [6]uint64) uint32 {
	ret := func(a specs.LinuxSeccompAction, e *uint) uint32 {
		switch a {
		case specs.ActAllow:
			return bpf.RetAllow
		case specs.ActKillProcess:
			return bpf.RetKillProcess
		case specs.ActKill, specs.ActKillThread:
			return bpf.RetKillThread
		case specs.ActTrap:
			return bpf.RetTrap
		}
		if e == nil {
			return bpf.RetErrno | 1
		}
		return bpf.RetErrno | uint32(*e)
	}
	found, rest := []uint32(nil), []uint32(nil)
	for _, r := range s.Syscalls {
		if !slices.Contains(r.Names, name) {
			continue
		}
		v := ret(r.Action, r.ErrnoRet)
		if v != bpf.RetAllow && len(r.Args) == 1 && r.Args[0] == (specs.LinuxSeccompArg{Op: specs.OpGreaterEqual}) {
			rest = append(rest, v)
			continue
		}
		if ok, _ := filtertest.Matches(r.Args, args); ok {
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		found = rest
	}
	if len(found) == 0 {
		return ret(s.DefaultAction, s.DefaultErrnoRet)
	}
	worst := found[0]
	for _, v := range found[1:] {
		if int32(v&bpf.RetActionFull) < int32(worst&bpf.RetActionFull) {
			worst = v
		}
	}
	return worst
}

// arguments makes arguments near what the rules compare with.
func arguments(r *rand.Rand, s *specs.LinuxSeccomp, name string) (out [6]uint64) {
	for i := range out {
		switch r.IntN(4) {
		case 0:
			out[i] = r.Uint64()
		case 1:
			out[i] = uint64(r.IntN(64))
		case 2:
			out[i] = 1 << r.IntN(64)
		}
	}
	for _, rule := range s.Syscalls {
		if !slices.Contains(rule.Names, name) || r.IntN(3) == 0 {
			continue
		}
		for _, a := range rule.Args {
			v := a.Value
			if a.Op == specs.OpMaskedEqual {
				v = a.ValueTwo | r.Uint64()&^a.Value
			}
			switch r.IntN(8) {
			case 0:
				v++
			case 1:
				v--
			case 2:
				v ^= 1 << r.IntN(64)
			case 3:
				v &= 0xffffffff
			}
			out[a.Index] = v
		}
	}
	return out
}

// What a profile states is what its program answers.
func TestSameVerdict(t *testing.T) {
	each(t, func(t *testing.T, s *specs.LinuxSeccomp, _, goarch string, _ bool) {
		prog := compile(t, s)
		r := rand.New(rand.NewPCG(1, 2))
		audit := arches[s.Architectures[0]].audit
		verdicts := map[uint32]bool{}
		for _, name := range abi.Names(goarch) {
			nr, _ := abi.Number(name, goarch)
			n := 20
			if slices.ContainsFunc(s.Syscalls, func(x specs.LinuxSyscall) bool { return len(x.Args) > 0 && slices.Contains(x.Names, name) }) {
				n = 4000
			}
			for range n {
				args := arguments(r, s, name)
				want, got := decides(s, name, args), run(t, prog, &bpf.Data{NR: nr, Arch: audit, Args: args})
				if want != got {
					t.Fatalf("%s%#x: %#x, the section states %#x", name, args, got, want)
				}
				verdicts[got] = true
			}
		}
		if len(verdicts) < 3 {
			t.Errorf("only %d different answers", len(verdicts))
		}
	})
}

// Every number, on every architecture: what is not a listed call gets the
// default answer, other ABIs end the process.
func TestNumbers(t *testing.T) {
	each(t, func(t *testing.T, s *specs.LinuxSeccomp, profile, goarch string, kill bool) {
		prog := compile(t, s)
		audit := arches[s.Architectures[0]].audit
		def := uint32(bpf.RetErrno | 38)
		if kill {
			def = bpf.RetKillProcess
		}
		check := func(nr, arch, want uint32) {
			v, err := bpf.Verdicts(prog, bpf.Call(arch, nr))
			if err != nil || len(v) != 1 || v[0] != want {
				t.Errorf("number %#x of architecture %#x: %#x, %v; want %#x", nr, arch, v, err, want)
			}
		}
		for nr := range uint32(4096) {
			if abi.Name(nr, goarch) == "" {
				check(nr, audit, def)
			}
			x32 := uint32(bpf.RetKillProcess)
			if goarch != "amd64" {
				x32 = def
			}
			check(nr|bpf.X32Bit, audit, x32)
			for _, other := range []uint32{bpf.ArchI386, bpf.ArchARM, bpf.ArchX86_64, bpf.ArchAARCH64, 0, 0xffffffff} {
				if other != audit {
					check(nr, other, bpf.RetKillProcess)
				}
			}
		}
		check(0xffffffff, audit, def)
		for bit := 12; bit < 32; bit++ {
			if bit != 30 {
				check(1<<bit, audit, def)
			}
		}
		// All other architectures, one differing bit at a time.
		for bit := range 32 {
			m := uint32(1) << bit
			v, err := bpf.Verdicts(prog, bpf.Partial{Arch: ^audit & m, ArchMask: m})
			if err != nil || len(v) != 1 || v[0] != bpf.RetKillProcess {
				t.Errorf("architectures whose bit %d differs: %#x, %v", bit, v, err)
			}
		}
	})
}

// The kernel skips a filter for calls that it allows whatever the arguments
// (seccomp_is_const_allow, Linux 5.11), if it finds that out by itself.
func TestConstAllow(t *testing.T) {
	each(t, func(t *testing.T, s *specs.LinuxSeccomp, profile, goarch string, _ bool) {
		prog := compile(t, s)
		entries, err := seccomp.Entries(profile, goarch)
		if err != nil {
			t.Fatal(err)
		}
		free, asked := 0, 0
		for _, e := range entries {
			nr, ok := abi.Number(e.Name, goarch)
			if !ok || e.Errno != "" {
				continue
			}
			if got, want := bpf.Constant(prog, arches[s.Architectures[0]].audit, nr), e.Rule == ""; got != want {
				t.Errorf("%s: cached %v, want %v", e.Name, got, want)
			}
			if e.Rule == "" {
				free++
			} else {
				asked++
			}
		}
		if free < 4*asked || asked == 0 {
			t.Errorf("%d calls are free, %d are not", free, asked)
		}
		if len(prog) > 512 {
			t.Errorf("%d instructions", len(prog))
		}
	})
}

// Sections that no profile is like: every operator, both halves of arguments,
// several comparisons of one argument.
func TestRandomSections(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	values := []uint64{0, 1, 2, 7, 8, 40, 0xfff, 0x5412, 0xffffffff, 1 << 32, 1<<32 | 1, 1<<32 | 40, 1 << 63, ^uint64(0)}
	masks := []uint64{0, 1, 7, 0xff, 0x6000, 0xfffffff7, 0xffffffff, 0xffff7fff, 0xffffffff00000000, 1 << 40, ^uint64(0)}
	ops := []specs.LinuxSeccompOperator{specs.OpEqualTo, specs.OpNotEqual, specs.OpLessThan, specs.OpLessEqual, specs.OpGreaterThan, specs.OpGreaterEqual, specs.OpMaskedEqual, specs.OpMaskedEqual}
	actions := []specs.LinuxSeccompAction{specs.ActAllow, specs.ActAllow, specs.ActAllow, specs.ActErrno, specs.ActKillProcess, specs.ActKill, specs.ActTrap}
	names := []string{"socket", "ioctl", "read"}
	for seed := range 1500 {
		one := uint(1)
		s := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: &one, Architectures: []specs.Arch{specs.ArchX86_64}}
		if r.IntN(4) == 0 {
			s.DefaultAction = specs.ActKillProcess
		}
		for range 1 + r.IntN(8) {
			rule := specs.LinuxSyscall{Names: names[r.IntN(3):], Action: actions[r.IntN(len(actions))]}
			for range r.IntN(4) {
				a := specs.LinuxSeccompArg{Index: uint(r.IntN(3)), Op: ops[r.IntN(len(ops))], Value: values[r.IntN(len(values))]}
				if a.Op == specs.OpMaskedEqual {
					a.Value = masks[r.IntN(len(masks))]
					a.ValueTwo = values[r.IntN(len(values))] & a.Value
				}
				rule.Args = append(rule.Args, a)
			}
			s.Syscalls = append(s.Syscalls, rule)
		}
		prog := compile(t, s)
		for range 150 {
			name := names[r.IntN(3)]
			nr, _ := abi.Number(name, "amd64")
			args := arguments(r, s, name)
			if want, got := decides(s, name, args), run(t, prog, &bpf.Data{NR: nr, Arch: bpf.ArchX86_64, Args: args}); want != got {
				t.Fatalf("section %d: %s%#x: %#x, the section states %#x\n%+v", seed, name, args, got, want, s)
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	big := uint(1 << 12)
	one := func(r specs.LinuxSyscall) *specs.LinuxSeccomp {
		return &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, Architectures: []specs.Arch{specs.ArchX86_64}, Syscalls: []specs.LinuxSyscall{r}}
	}
	rule := func(a specs.LinuxSeccompAction, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
		return specs.LinuxSyscall{Names: []string{"read"}, Action: a, Args: args}
	}
	many := one(specs.LinuxSyscall{})
	many.Syscalls = nil
	for i := range uint64(5000) {
		many.Syscalls = append(many.Syscalls, rule(specs.ActAllow, specs.LinuxSeccompArg{Index: uint(i % 3), Op: specs.OpEqualTo, Value: i * 77}))
	}
	// Many comparisons of one argument are as many rules, not all combinations.
	wide := one(rule(specs.ActAllow))
	for i := range uint64(200) {
		wide.Syscalls[0].Args = append(wide.Syscalls[0].Args, specs.LinuxSeccompArg{Index: 1, Op: specs.OpNotEqual, Value: i})
	}
	if _, err := Compile(wide); err != nil {
		t.Error(err)
	}
	for name, s := range map[string]*specs.LinuxSeccomp{
		"no architecture":       {DefaultAction: specs.ActErrno},
		"two architectures":     {DefaultAction: specs.ActErrno, Architectures: []specs.Arch{specs.ArchX86_64, specs.ArchX86}},
		"an other architecture": {DefaultAction: specs.ActErrno, Architectures: []specs.Arch{specs.ArchX86}},
		"no default":            {Architectures: []specs.Arch{specs.ArchX86_64}},
		"a listener":            one(rule(specs.ActNotify)),
		"a tracer":              one(rule(specs.ActTrace)),
		"an errno too big":      one(specs.LinuxSyscall{Names: []string{"read"}, Action: specs.ActErrno, ErrnoRet: &big}),
		"argument 6":            one(rule(specs.ActAllow, specs.LinuxSeccompArg{Index: 6, Op: specs.OpEqualTo})),
		"an operator":           one(rule(specs.ActAllow, specs.LinuxSeccompArg{Op: "SCMP_CMP_XX"})),
		"too many rules":        many,
	} {
		if prog, err := Compile(s); err == nil {
			t.Errorf("%s: compiled to %d instructions", name, len(prog))
		}
	}
	for _, bad := range [][2]string{{"none", "amd64"}, {"default", "riscv64"}} {
		if _, err := Program(bad[0], bad[1], false); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// FuzzCompile feeds arbitrary JSON as an engine's filter. What comes of it with
// a profile is compiled, or an error reports why not; it ends on every call, and
// lets nothing pass that the profile's own program does not.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"defaultAction":"SCMP_ACT_ALLOW"}`,
		`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["read","socket"],"action":"SCMP_ACT_ALLOW"}]}`,
		`{"defaultAction":"SCMP_ACT_KILL","syscalls":[{"names":["socket"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":40,"op":"SCMP_CMP_NE"}]},{"names":["ptrace"],"action":"SCMP_ACT_TRAP"}]}`,
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["clone"],"action":"SCMP_ACT_ERRNO","args":[{"index":0,"value":1,"op":"SCMP_CMP_GE"},{"index":0,"value":9,"op":"SCMP_CMP_LT"},{"index":1,"value":4294967299,"op":"SCMP_CMP_GT"}]}]}`,
	} {
		f.Add([]byte(seed), uint64(1))
	}
	ours, err := seccomp.OCI(seccomp.Options{Profile: "default", Arch: "amd64"})
	if err != nil {
		f.Fatal(err)
	}
	own := compile(f, ours)
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		var in specs.LinuxSeccomp
		if json.Unmarshal(data, &in) != nil {
			return
		}
		// As it comes, which nothing in a jail's way compiles: no panic, no hang.
		if prog, err := Compile(&in); err == nil {
			run(t, prog, &bpf.Data{Arch: bpf.ArchX86_64})
		}
		s, _ := seccomp.Intersect(ours, &in)
		prog, err := Compile(s)
		if err != nil {
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		for _, name := range []string{"read", "socket", "clone", "ioctl", "ptrace", "bpf", "setsockopt", "openat"} {
			nr, _ := abi.Number(name, "amd64")
			d := &bpf.Data{NR: nr, Arch: bpf.ArchX86_64, Args: arguments(r, s, name)}
			if run(t, prog, d) == bpf.RetAllow && run(t, own, d) != bpf.RetAllow {
				t.Fatalf("%s%#x passes", name, d.Args)
			}
		}
	})
}

func BenchmarkProgram(b *testing.B) {
	for b.Loop() {
		if _, err := Program("default", "amd64", false); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	f, err := seccomp.OCI(seccomp.Options{Profile: "default", Arch: "amd64"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Compile(f); err != nil {
			b.Fatal(err)
		}
	}
}
