package compiler

import (
	"errors"

	"agentjail.dev/seccomp/bpf"
)

// Opcodes (linux/bpf_common.h).
const (
	opLoad = 0x20 // BPF_LD | BPF_W | BPF_ABS
	opAnd  = 0x54 // BPF_ALU | BPF_AND | BPF_K
	opRet  = 0x06
	opJump = 0x05

	jumpEqual   uint16 = 0x15
	jumpAtLeast uint16 = 0x35
	jumpAny     uint16 = 0x45 // some bit of k is set
)

// target is where a jump goes: a verdict, or code that is already there.
type target struct {
	ret   uint32
	code  bool
	index int // of code: counted from the program's end
}

func verdictTarget(ret uint32) target { return target{ret: ret} }

// here stands for the instruction emitted last, which is the next to run.
var here = target{code: true, index: -1}

// assembler makes a program from its end towards its start, so that the place
// that a jump goes to is always known.
type assembler struct {
	rev   []bpf.Insn
	memo  map[string]target
	buf   []byte // for keys of memo
	nodes int
	err   error
}

func (a *assembler) fail(text string) {
	if a.err == nil {
		a.err = errors.New("seccomp filter: " + text)
	}
}

// emit puts an instruction in front.
func (a *assembler) emit(in bpf.Insn) target {
	if len(a.rev) > bpf.MaxInsns {
		a.fail("more instructions than the kernel takes")
		return target{}
	}
	a.rev = append(a.rev, in)
	return target{code: true, index: len(a.rev) - 1}
}

// load reads a word of struct seccomp_data by its offset.
func (a *assembler) load(offset uint32) target { return a.emit(bpf.Insn{Code: opLoad, K: offset}) }

// fetch loads word&mask of the arguments and goes on to a target.
func (a *assembler) fetch(acc accumulator, to target) target {
	a.lead(to)
	if acc.mask != ^uint32(0) {
		a.emit(bpf.Insn{Code: opAnd, K: acc.mask})
	}
	return a.load(uint32(acc.word) * 4)
}

// jump puts a conditional jump in front.
func (a *assembler) jump(code uint16, k uint32, yes, no target) target {
	if yes == no {
		return yes
	}
	if yes == here {
		yes.index = len(a.rev) - 1
	}
	// A jump reaches 255 instructions. A farther target gets a verdict or a long jump of its own in
	// front, which moves the other target away.
	for a.err == nil {
		y, okY := a.reach(yes)
		n, okN := a.reach(no)
		switch {
		case !okN:
			no = a.closer(no)
		case !okY:
			yes = a.closer(yes)
		default:
			return a.emit(bpf.Insn{Code: code, Jt: uint8(y), Jf: uint8(n), K: k})
		}
	}
	return target{}
}

// reach is the distance from the next instruction emitted to a target; ok is
// false when that does not fit a jump.
func (a *assembler) reach(t target) (distance int, ok bool) {
	if t.code {
		d := len(a.rev) - 1 - t.index
		return d, d < 256
	}
	for d := 0; d < 256 && d < len(a.rev); d++ {
		if in := a.rev[len(a.rev)-1-d]; in.Code == opRet && in.K == t.ret {
			return d, true
		}
	}
	return 0, false
}

// lead makes what is emitted next lead to a target.
func (a *assembler) lead(t target) {
	if !t.code || t.index != len(a.rev)-1 {
		a.closer(t)
	}
}

// closer emits an instruction that leads to a target.
func (a *assembler) closer(t target) target {
	if !t.code {
		return a.emit(bpf.Insn{Code: opRet, K: t.ret})
	}
	return a.emit(bpf.Insn{Code: opJump, K: uint32(len(a.rev) - 1 - t.index)})
}
