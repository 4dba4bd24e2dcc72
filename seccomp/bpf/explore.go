package bpf

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Partial is a call of which some bits are known: those set in the masks have the values of the
// fields, all others may be anything. It stands for the set of all calls that fit, so that a filter
// can be judged for all of them at once.
type Partial struct {
	NR, NRMask     uint32
	Arch, ArchMask uint32
	Args, ArgMasks [6]uint64
}

// Call is a partial call with a known number and architecture and unknown
// arguments.
func Call(arch, nr uint32) Partial {
	return Partial{NR: nr, NRMask: ^uint32(0), Arch: arch, ArchMask: ^uint32(0)}
}

// With sets the bits of mask of argument i to value.
func (p Partial) With(i int, mask, value uint64) Partial {
	p.ArgMasks[i] |= mask
	p.Args[i] = p.Args[i]&^mask | value&mask
	return p
}

// bitsKnown is what is known of one 32-bit word.
type bitsKnown struct{ mask, value uint32 }

// nWords counts the words of struct seccomp_data: number, architecture, instruction pointer,
// arguments, each 64-bit value as low and high word.
const nWords = dataSize / 4

// state is a set of calls on their way through a program.
type state struct {
	pc    int
	words [nWords]bitsKnown
	// The accumulator is word&and of the data, or a constant when word is
	// negative, or unknown.
	word    int
	and     uint32
	konst   uint32
	unknown bool
	mem     [16]uint32
	memOK   [16]bool
}

// maxStates bounds the work: a libseccomp filter needs a few thousand.
const maxStates = 1 << 20

// Verdicts lists every verdict that some call of p can get, sorted. It may list
// one that no call gets (what it learns on the way is only which bits are
// known), but never leaves one out: that ALLOW is missing proves that no call
// of p passes. Errors: a program that the kernel would not load, or one too
// large to explore.
func Verdicts(prog []Insn, p Partial) ([]uint32, error) {
	first := state{word: -1}
	first.words[0] = bitsKnown{p.NRMask, p.NR & p.NRMask}
	first.words[1] = bitsKnown{p.ArchMask, p.Arch & p.ArchMask}
	for i := range p.Args {
		m, v := p.ArgMasks[i], p.Args[i]&p.ArgMasks[i]
		first.words[4+2*i] = bitsKnown{uint32(m), uint32(v)}
		first.words[5+2*i] = bitsKnown{uint32(m >> 32), uint32(v >> 32)}
	}
	var out []uint32
	todo := []state{first}
	for n := 0; len(todo) > 0; n++ {
		if n > maxStates {
			return nil, errors.New("BPF program too large to explore")
		}
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		next, verdict, done, err := step(prog, s)
		switch {
		case err != nil:
			return nil, err
		case done:
			if !slices.Contains(out, verdict) {
				out = append(out, verdict)
			}
		default:
			todo = append(todo, next...)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Passes reports whether some call of p may get ALLOW or LOG.
func Passes(prog []Insn, p Partial) (bool, error) {
	v, err := Verdicts(prog, p)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(v, func(x uint32) bool {
		return x&RetActionFull == RetAllow || x&RetActionFull == RetLog
	}), nil
}

// step runs one instruction on a set of calls.
func step(prog []Insn, s state) (next []state, verdict uint32, done bool, err error) {
	if s.pc >= len(prog) {
		return nil, 0, false, errors.New("BPF program runs off its end")
	}
	in := prog[s.pc]
	s.pc++
	switch in.Code {
	case opLdAbs:
		if in.K >= dataSize || in.K%4 != 0 {
			return nil, 0, false, fmt.Errorf("load at offset %d of seccomp_data", in.K)
		}
		s.word, s.and, s.unknown = int(in.K/4), ^uint32(0), false
	case opLdImm:
		s.word, s.konst, s.unknown = -1, in.K, false
	case opLdMem:
		if in.K >= 16 || !s.memOK[in.K] {
			s.unknown = true
			break
		}
		s.word, s.konst, s.unknown = -1, s.mem[in.K], false
	case opSt:
		if in.K >= 16 {
			return nil, 0, false, fmt.Errorf("scratch word %d", in.K)
		}
		s.mem[in.K], s.memOK[in.K] = s.konst, s.word < 0 && !s.unknown
	case opRetK:
		return nil, in.K, true, nil
	case opRetA:
		if s.word < 0 && !s.unknown {
			return nil, s.konst, true, nil
		}
		return nil, 0, false, errors.New("verdict computed from data: cannot be explored")
	case opJa:
		s.pc += int(in.K)
	case opAnd:
		switch {
		case s.unknown:
		case s.word < 0:
			s.konst &= in.K
		default:
			s.and &= in.K
		}
	case opJeq, opJgt, opJge, opJset:
		return s.branch(in), 0, false, nil
	default:
		if in.Code&classMask == unix.BPF_JMP {
			return nil, 0, false, fmt.Errorf("jump %#x compares with a register: cannot be explored", in.Code)
		}
		s.unknown = true // other arithmetic: any value
	}
	return []state{s}, 0, false, nil
}

// branch splits a set of calls at a conditional jump.
func (s state) branch(in Insn) []state {
	yes, no := s, s
	yes.pc += int(in.Jt)
	no.pc += int(in.Jf)
	if s.unknown {
		return []state{yes, no}
	}
	if s.word < 0 {
		if compare(in.Code, s.konst, in.K) {
			return []state{yes}
		}
		return []state{no}
	}
	known := s.words[s.word]
	low := known.value & s.and      // smallest value the accumulator can have
	high := low | s.and&^known.mask // largest
	if low == high {
		if compare(in.Code, low, in.K) {
			return []state{yes}
		}
		return []state{no}
	}
	switch in.Code {
	case opJeq:
		if in.K&^s.and != 0 || (in.K^low)&s.and&known.mask != 0 {
			return []state{no}
		}
		yes.words[s.word] = bitsKnown{known.mask | s.and, known.value | in.K}
		if free := s.and &^ known.mask; free&(free-1) == 0 {
			// One bit is open: if not equal it has the other value.
			no.words[s.word] = bitsKnown{known.mask | free, known.value | ^in.K&free}
		}
	case opJgt:
		if low > in.K {
			return []state{yes}
		}
		if high <= in.K {
			return []state{no}
		}
	case opJge:
		if low >= in.K {
			return []state{yes}
		}
		if high < in.K {
			return []state{no}
		}
	case opJset:
		if low&in.K != 0 {
			return []state{yes}
		}
		if high&in.K == 0 {
			return []state{no}
		}
		// Not set: all these bits are zero.
		zero := s.and & in.K
		no.words[s.word] = bitsKnown{known.mask | zero, known.value &^ zero}
	}
	return []state{yes, no}
}

func compare(code uint16, a, k uint32) bool {
	switch code {
	case opJeq:
		return a == k
	case opJgt:
		return a > k
	case opJge:
		return a >= k
	}
	return a&k != 0
}
