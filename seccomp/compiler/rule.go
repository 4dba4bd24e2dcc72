package compiler

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp/bpf"
)

// rule answers ret to the calls for which all tests hold.
type rule struct {
	tests []test
	ret   uint32
	rank  int // strictness; rules of higher rank answer first
}

// test is a comparison on one 32-bit word of a call's arguments: word&mask ==
// value, or with atLeast word >= value; the opposite with not.
type test struct {
	word    uint8 // of struct seccomp_data: 4 is the low half of argument 0
	atLeast bool
	not     bool
	mask    uint32
	value   uint32
}

// Ranks of rules: refusals by strictness, then what is allowed, then the
// refusal of all else.
const (
	rankRest = iota
	rankAllow
	rankErrno
	rankTrap
	rankKillThread
	rankKillProcess
)

// verdict is the kernel's action for an OCI action. ERRNO without a number is EPERM, as in runc and
// crun.
func verdict(action specs.LinuxSeccompAction, errno *uint) (uint32, error) {
	switch action {
	case specs.ActAllow:
		return bpf.RetAllow, nil
	case specs.ActLog:
		return bpf.RetLog, nil
	case specs.ActTrap:
		return bpf.RetTrap, nil
	case specs.ActKill, specs.ActKillThread:
		return bpf.RetKillThread, nil
	case specs.ActKillProcess:
		return bpf.RetKillProcess, nil
	case specs.ActErrno:
		e := uint(1)
		if errno != nil {
			e = *errno
		}
		if e > 4095 { // MAX_ERRNO; the kernel would cut it to that
			return 0, fmt.Errorf("errno %d", e)
		}
		return bpf.RetErrno | uint32(e), nil
	}
	return 0, fmt.Errorf("action %q has no place in a jail's filter", action)
}

func rankOf(ret uint32) int {
	switch ret & bpf.RetActionFull {
	case bpf.RetAllow, bpf.RetLog:
		return rankAllow
	case bpf.RetTrap:
		return rankTrap
	case bpf.RetKillThread:
		return rankKillThread
	case bpf.RetKillProcess:
		return rankKillProcess
	}
	return rankErrno
}

// rulesOf reads one rule of a section. Several comparisons of one argument are
// alternatives, as runc and crun have it.
func rulesOf(s *specs.LinuxSyscall) ([]rule, error) {
	ret, err := verdict(s.Action, s.ErrnoRet)
	if err != nil {
		return nil, err
	}
	rank := rankOf(ret)
	allows := rank == rankAllow
	if len(s.Args) == 0 {
		return []rule{{ret: ret, rank: rank}}, nil
	}
	if !allows && len(s.Args) == 1 && s.Args[0].Index == 0 && s.Args[0].Op == specs.OpGreaterEqual && s.Args[0].Value == 0 {
		return []rule{{ret: ret, rank: rankRest}}, nil
	}
	var seen [6]bool
	twice := false
	for _, a := range s.Args {
		if a.Index >= uint(len(seen)) {
			return nil, fmt.Errorf("argument %d", a.Index)
		}
		twice = twice || seen[a.Index]
		seen[a.Index] = true
	}
	sets := [][]test{nil}
	if twice {
		sets = nil
	}
	for _, a := range s.Args {
		alt, err := compare(a, allows)
		if err != nil {
			return nil, err
		}
		switch {
		case twice:
			sets = append(sets, alt...)
		case len(alt) == 1 && len(sets) == 1:
			sets[0] = append(sets[0], alt[0]...)
		default:
			next := make([][]test, 0, len(sets)*len(alt))
			for _, x := range sets {
				for _, y := range alt {
					next = append(next, append(x[:len(x):len(x)], y...))
				}
			}
			sets = next
		}
	}
	out := make([]rule, len(sets))
	for i, t := range sets {
		out[i] = rule{tests: t, ret: ret, rank: rank}
	}
	return out, nil
}

// compare brings a comparison of 64 bits to alternatives of tests of 32 bits.
func compare(a specs.LinuxSeccompArg, allows bool) ([][]test, error) {
	lo := uint8(4 + 2*a.Index)
	hi := lo + 1
	vl, vh := uint32(a.Value), uint32(a.Value>>32)
	const all = ^uint32(0)
	equal := func(word uint8, mask, value uint32) []test {
		if mask == 0 {
			return nil
		}
		return []test{{word: word, mask: mask, value: value & mask}}
	}
	atLeast := func(word uint8, v uint32) test { return test{word: word, atLeast: true, value: v} }
	not := func(t test) test { t.not = true; return t }
	switch a.Op {
	case specs.OpMaskedEqual:
		if allows && a.ValueTwo&^a.Value != 0 {
			return nil, nil // libseccomp would cut the value to the mask: never take that to allow
		}
		return [][]test{append(equal(lo, vl, uint32(a.ValueTwo)), equal(hi, vh, uint32(a.ValueTwo>>32))...)}, nil
	case specs.OpEqualTo:
		return [][]test{append(equal(lo, all, vl), equal(hi, all, vh)...)}, nil
	case specs.OpNotEqual:
		return [][]test{{not(equal(lo, all, vl)[0])}, {not(equal(hi, all, vh)[0])}}, nil
	case specs.OpGreaterThan, specs.OpGreaterEqual:
		// In the high half greater, or equal there and greater in the low.
		var out [][]test
		if vh != all {
			out = append(out, []test{atLeast(hi, vh+1)})
		}
		if a.Op == specs.OpGreaterEqual {
			out = append(out, append(equal(hi, all, vh), atLeast(lo, vl)))
		} else if vl != all {
			out = append(out, append(equal(hi, all, vh), atLeast(lo, vl+1)))
		}
		return out, nil
	case specs.OpLessThan, specs.OpLessEqual:
		out := [][]test{{not(atLeast(hi, vh))}}
		if a.Op == specs.OpLessThan {
			out = append(out, append(equal(hi, all, vh), not(atLeast(lo, vl))))
		} else if vl != all {
			out = append(out, append(equal(hi, all, vh), not(atLeast(lo, vl+1))))
		} else {
			out = append(out, equal(hi, all, vh))
		}
		return out, nil
	}
	return nil, fmt.Errorf("operator %q", a.Op)
}
