//go:build cgo

package prove

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	libseccomp "github.com/seccomp/libseccomp-golang"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/bpf/filtertest"
)

// gen makes random filters and calls from values that rules of real filters
// use, so that conditions overlap often.
type gen struct{ *rand.Rand }

var (
	genNames = []string{
		"socket", "clone", "ioctl", "openat", "setsockopt", "chmod", "sendto", "prctl", "mknodat", "fcntl",
		"read", "getpid", "futex", "sendfile", "personality",
		"ptrace", "unshare", "bpf", "io_uring_setup", "clone3", "kcmp",
	}
	genValues = []uint64{
		0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 17, 31, 38, 39, 40, 41, 262, 282, 0o6000, 0o4755, 0o100644, 0o20000000,
		0x4200, 0x4205, 0x4206, 1 << 21, 0x5400, 0x5401, 0x5412, 0x5413, 0x541b, 0x7e020000, 0x10000011, 0x80001, 0xffffffff, 1 << 32, 1<<32 | 1, 1<<32 | 40,
		1 << 63, ^uint64(0), ^uint64(0) - 1,
	}
	genMasks = []uint64{1, 2, 7, 0xff, 0o6000, 0x7e020000, 0xffffffff, 0xfffffff7, 0xfff7f7ff, 0xffffffff00000000, ^uint64(0), 0}
	genOps   = []specs.LinuxSeccompOperator{
		specs.OpMaskedEqual, specs.OpMaskedEqual, specs.OpMaskedEqual, specs.OpEqualTo, specs.OpEqualTo,
		specs.OpNotEqual, specs.OpLessThan, specs.OpLessEqual, specs.OpGreaterEqual, specs.OpGreaterThan,
	}
	genActions = []specs.LinuxSeccompAction{
		specs.ActAllow, specs.ActAllow, specs.ActAllow, specs.ActAllow, specs.ActLog,
		specs.ActErrno, specs.ActErrno, specs.ActKillProcess, specs.ActKill, specs.ActTrap, specs.ActTrace,
	}
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func pick[T any](g gen, from []T) T { return from[g.IntN(len(from))] }

func (g gen) value() uint64 {
	v := pick(g, genValues)
	switch g.IntN(8) {
	case 0:
		v++
	case 1:
		v |= uint64(g.Uint32()) << 32
	case 2:
		v ^= 1 << g.IntN(64)
	}
	return v
}

func (g gen) filter() *specs.LinuxSeccomp {
	errno := uint(1)
	f := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: &errno}
	switch g.IntN(8) {
	case 0:
		f.DefaultAction, f.DefaultErrnoRet = specs.ActAllow, nil
	case 1:
		f.DefaultAction, f.DefaultErrnoRet = specs.ActKillProcess, nil
	case 2:
		f.DefaultAction, f.DefaultErrnoRet = specs.ActTrap, nil
	}
	for range 1 + g.IntN(30) {
		s := specs.LinuxSyscall{Action: pick(g, genActions)}
		if g.IntN(3) == 0 && f.DefaultAction != specs.ActAllow {
			s.Action = specs.ActAllow
		}
		for range 1 + g.IntN(3) {
			s.Names = append(s.Names, pick(g, genNames))
		}
		if g.IntN(4) > 0 {
			for range 1 + g.IntN(2) {
				a := specs.LinuxSeccompArg{Index: uint(g.IntN(4)), Op: pick(g, genOps), Value: g.value()}
				if a.Op == specs.OpMaskedEqual {
					a.Value, a.ValueTwo = pick(g, genMasks), g.value()
					if g.IntN(4) > 0 {
						a.ValueTwo &= a.Value
					}
				}
				s.Args = append(s.Args, a)
			}
		}
		f.Syscalls = append(f.Syscalls, s)
	}
	return untangled(f)
}

// untangled drops rules that can hang libseccomp (see args.tangles in package
// seccomp): they are no use as input, since no delegate gets over them.
func untangled(f *specs.LinuxSeccomp) *specs.LinuxSeccomp {
	var keep []specs.LinuxSyscall
	for _, s := range f.Syscalls {
		bad := false
		for i, a := range s.Args {
			for _, b := range s.Args {
				unequal := a.Op != specs.OpEqualTo && a.Op != specs.OpMaskedEqual
				bad = bad || i < len(s.Args) && unequal && b.Index > a.Index
			}
		}
		if !bad {
			keep = append(keep, s)
		}
	}
	f.Syscalls = keep
	return f
}

// args makes arguments, mostly near what the rules of the filters compare with.
func (g gen) args(name string, filters ...*specs.LinuxSeccomp) (out [6]uint64) {
	for i := range out {
		out[i] = g.value()
	}
	for _, f := range filters {
		for _, s := range f.Syscalls {
			for _, n := range s.Names {
				if n != name || g.IntN(3) > 0 {
					continue
				}
				for _, a := range s.Args {
					v := a.Value
					if a.Op == specs.OpMaskedEqual {
						v = a.ValueTwo | g.value()&^a.Value
					}
					switch g.IntN(6) {
					case 0:
						v++
					case 1:
						v--
					case 2:
						v |= 1 << 32
					}
					out[a.Index] = v
				}
			}
		}
	}
	return out
}

// rank orders verdicts as the kernel does.
func rank(v uint32) int {
	switch v & bpf.RetActionFull {
	case bpf.RetAllow, bpf.RetLog:
		return 0
	case bpf.RetTrap:
		return 3
	case bpf.RetKillThread:
		return 4
	case bpf.RetKillProcess:
		return 5
	}
	return 2
}

func verdict(t testing.TB, prog []bpf.Insn, name string, args [6]uint64) uint32 {
	t.Helper()
	nr, err := libseccomp.GetSyscallFromNameByArch(name, libseccomp.ArchAMD64)
	if err != nil {
		t.Fatal(err)
	}
	v, err := bpf.Run(prog, &bpf.Data{NR: uint32(nr), Arch: bpf.ArchX86_64, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func compile(t testing.TB, s *specs.LinuxSeccomp) []bpf.Insn {
	t.Helper()
	prog, err := Compile(s, specs.ArchX86_64, false)
	if err != nil {
		t.Fatalf("%v\n%s", err, show(s))
	}
	return prog
}

func show(s *specs.LinuxSeccomp) string {
	out := fmt.Sprintf("default %s %v\n", s.DefaultAction, s.DefaultErrnoRet)
	for _, c := range s.Syscalls {
		if len(c.Args) == 0 && len(c.Names) > 20 {
			continue
		}
		e := ""
		if c.ErrnoRet != nil {
			e = fmt.Sprint(*c.ErrnoRet)
		}
		out += fmt.Sprintf("%v %s%s %v\n", c.Names, c.Action, e, c.Args)
	}
	return out
}

// declared reports whether a filter's rules allow a call without any rule that
// refuses it. libseccomp (2.5.4 at least) gets some combinations of 64-bit
// comparisons wrong and refuses such calls: "< 9" beside "< 1<<32|41" on one
// argument refuses 9 to 41.
func declared(f *specs.LinuxSeccomp, name string, args [6]uint64) bool {
	allow := f.DefaultAction == specs.ActAllow
	for _, s := range f.Syscalls {
		if !slices.Contains(s.Names, name) || !matches(s.Args, args) {
			continue
		}
		if s.Action != specs.ActAllow && s.Action != specs.ActLog {
			return false
		}
		allow = true
	}
	return allow
}

// matches judges a call by the conditions of a rule. libseccomp cuts the value of a masked comparison
// to the mask.
func matches(conds []specs.LinuxSeccompArg, args [6]uint64) bool {
	conds = slices.Clone(conds)
	for i := range conds {
		if c := &conds[i]; c.Op == specs.OpMaskedEqual {
			c.ValueTwo &= c.Value
		}
	}
	ok, _ := filtertest.Matches(conds, args)
	return ok
}

// minus leaves the rules of a that b does not have.
func minus(a, b *specs.LinuxSeccomp) *specs.LinuxSeccomp {
	out := *a
	out.Syscalls = nil
	for _, s := range a.Syscalls {
		if !slices.ContainsFunc(b.Syscalls, func(x specs.LinuxSyscall) bool { return reflect.DeepEqual(s, x) }) {
			out.Syscalls = append(out.Syscalls, s)
		}
	}
	return &out
}

// onlyCall leaves a filter's rules for one call.
func onlyCall(f *specs.LinuxSeccomp, name string) *specs.LinuxSeccomp {
	out := *f
	out.Syscalls = nil
	for _, s := range f.Syscalls {
		if slices.Contains(s.Names, name) {
			s.Names = []string{name}
			out.Syscalls = append(out.Syscalls, s)
		}
	}
	return &out
}

// checkIntersect holds the intersection of two filters against both, decided
// by the compiled filters.
func checkIntersect(t testing.TB, g gen, ours, incoming *specs.LinuxSeccomp, calls int, random bool) (tighter int) {
	t.Helper()
	q, err := Compile(incoming, specs.ArchX86_64, false)
	if err != nil {
		return 0 // no delegate would start a container with it
	}
	both, notes := seccomp.Intersect(ours, incoming)
	again, _ := seccomp.Intersect(ours, both)
	if !reflect.DeepEqual(both, again) {
		t.Fatalf("not idempotent:\nours %s\nincoming %s\nfirst %s\nsecond %s", show(ours), show(incoming), show(minus(both, again)), show(minus(again, both)))
	}
	o, r := compile(t, ours), compile(t, both)
	for range calls {
		name := pick(g, genNames)
		args := g.args(name, ours, incoming, both)
		vo, vq, vr := verdict(t, o, name, args), verdict(t, q, name, args), verdict(t, r, name, args)
		if rank(vo) > 0 && declared(ours, name, args) || rank(vq) > 0 && declared(incoming, name, args) {
			continue // libseccomp compiled an input filter tighter than its rules state
		}
		if rank(vr) == 0 && (rank(vo) > 0 || rank(vq) > 0) {
			t.Fatalf("%s%#x passes (%#x): ours states %#x, incoming %#x\nours %s\nincoming %s\nresult %s",
				name, args, vr, vo, vq, show(onlyCall(ours, name)), show(onlyCall(incoming, name)), show(onlyCall(both, name)))
		}
		if (rank(vo) > 2 || rank(vq) > 2) && rank(vr) < max(rank(vo), rank(vq)) {
			t.Fatalf("%s%#x answers %#x: ours states %#x, incoming %#x\nours %s\nincoming %s\nresult %s",
				name, args, vr, vo, vq, show(onlyCall(ours, name)), show(onlyCall(incoming, name)), show(onlyCall(both, name)))
		}
		if rank(vr) > 0 && rank(vo) == 0 && rank(vq) == 0 {
			tighter++
			if len(notes) == 0 && !random { // rules that contradict each other are not noted for ours
				t.Fatalf("%s%#x is refused (%#x) though both allow it, and no note reports it\nours %s\nincoming %s\nresult %s",
					name, args, vr, show(onlyCall(ours, name)), show(onlyCall(incoming, name)), show(onlyCall(both, name)))
			}
		}
	}
	return tighter
}

func embedded(t testing.TB, profile string, kill bool) *specs.LinuxSeccomp {
	t.Helper()
	s, err := seccomp.OCI(seccomp.Options{Profile: profile, Arch: "amd64", Kill: kill})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestIntersectRandom(t *testing.T) {
	for seed := range uint64(4000) {
		g := gen{newRand(seed)}
		ours := embedded(t, pick(g, seccomp.Profiles()), g.IntN(3) == 0)
		random := seed%2 == 0
		if random {
			ours = g.filter()
			if _, err := Compile(ours, specs.ArchX86_64, false); err != nil {
				continue
			}
		}
		checkIntersect(t, g, ours, g.filter(), 60, random)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
