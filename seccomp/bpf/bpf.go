// Package bpf runs classic BPF programs the way the kernel's seccomp runs
// them (Documentation/networking/filter.rst, kernel/seccomp.c): a filter can
// be judged by what it answers, not by how it was written.
package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Insn is one classic BPF instruction (struct sock_filter).
type Insn = unix.SockFilter

// Data is what a seccomp filter sees of a call (struct seccomp_data).
type Data struct {
	NR   uint32
	Arch uint32 // AUDIT_ARCH_*
	IP   uint64
	Args [6]uint64
}

// AUDIT_ARCH_* values of linux/audit.h for the architectures in use here, and
// the bit that marks an x32 call on x86_64.
const (
	ArchX86_64  = 0xc000003e
	ArchI386    = 0x40000003
	ArchAARCH64 = 0xc00000b7
	ArchARM     = 0x40000028
	X32Bit      = 0x40000000
)

// AuditArch returns the AUDIT_ARCH_* value of a GOARCH, and 0, which is no architecture's, for
// those that have no filter here.
func AuditArch(goarch string) uint32 {
	switch goarch {
	case "amd64":
		return ArchX86_64
	case "arm64":
		return ArchAARCH64
	}
	return 0
}

// SECCOMP_RET_* actions of linux/seccomp.h: the upper half of a verdict.
const (
	RetKillProcess = 0x80000000
	RetKillThread  = 0x00000000
	RetTrap        = 0x00030000
	RetErrno       = 0x00050000
	RetLog         = 0x7ffc0000
	RetAllow       = 0x7fff0000

	RetActionFull = 0xffff0000
	RetData       = 0x0000ffff
)

// MaxInsns is BPF_MAXINSNS, the kernel's limit on a program's length.
const MaxInsns = 4096

// Parse reads instructions in the byte order of this machine's memory
// (little endian on every supported architecture), as seccomp_export_bpf
// writes them.
func Parse(raw []byte) ([]Insn, error) {
	if len(raw)%8 != 0 {
		return nil, fmt.Errorf("BPF program of %d bytes: not a multiple of 8", len(raw))
	}
	prog := make([]Insn, 0, len(raw)/8)
	for ; len(raw) > 0; raw = raw[8:] {
		prog = append(prog, Insn{
			Code: binary.LittleEndian.Uint16(raw),
			Jt:   raw[2],
			Jf:   raw[3],
			K:    binary.LittleEndian.Uint32(raw[4:]),
		})
	}
	if len(prog) == 0 || len(prog) > MaxInsns {
		return nil, fmt.Errorf("BPF program of %d instructions: the kernel takes 1 to %d", len(prog), MaxInsns)
	}
	return prog, nil
}

// Opcodes that seccomp_check_filter lets in (linux/bpf_common.h).
const (
	opLdAbs  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opLdLen  = unix.BPF_LD | unix.BPF_W | unix.BPF_LEN
	opLdImm  = unix.BPF_LD | unix.BPF_IMM
	opLdMem  = unix.BPF_LD | unix.BPF_MEM
	opLdxLen = unix.BPF_LDX | unix.BPF_W | unix.BPF_LEN
	opLdxImm = unix.BPF_LDX | unix.BPF_IMM
	opLdxMem = unix.BPF_LDX | unix.BPF_MEM
	opSt     = unix.BPF_ST
	opStx    = unix.BPF_STX
	opRetK   = unix.BPF_RET | unix.BPF_K
	opRetA   = unix.BPF_RET | unix.BPF_A
	opTax    = unix.BPF_MISC | unix.BPF_TAX
	opTxa    = unix.BPF_MISC | unix.BPF_TXA
	opNeg    = unix.BPF_ALU | unix.BPF_NEG
	opJa     = unix.BPF_JMP | unix.BPF_JA
	// With a constant.
	opJeq  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opJgt  = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	opJge  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opJset = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	opAnd  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K

	classMask     = 0x07 // BPF_CLASS
	operationMask = 0xf0 // BPF_OP
)

// dataSize is sizeof(struct seccomp_data).
const dataSize = 64

// Run returns the filter's verdict on d. Errors: an instruction that the
// kernel would not have loaded, or running off the end.
func Run(prog []Insn, d *Data) (uint32, error) {
	var m machine
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		switch in.Code {
		case opRetK:
			return in.K, nil
		case opRetA:
			return m.a, nil
		case opJa:
			pc += int(in.K)
			continue
		}
		if code := in.Code &^ unix.BPF_X; code == opJeq || code == opJgt || code == opJge || code == opJset {
			if compare(code, m.a, m.operand(in)) {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		} else if err := m.execute(in, d); err != nil {
			return 0, fmt.Errorf("instruction %d: %w", pc, err)
		}
	}
	return 0, errors.New("BPF program runs off its end")
}

// A machine is the state of a program that runs.
type machine struct {
	a, x uint32
	mem  [unix.BPF_MEMWORDS]uint32
}

// operand is the constant or the index register.
func (m *machine) operand(in Insn) uint32 {
	if in.Code&unix.BPF_X != 0 {
		return m.x
	}
	return in.K
}

// execute runs an instruction that does not jump.
func (m *machine) execute(in Insn, d *Data) (err error) {
	switch in.Code {
	case opLdAbs:
		m.a, err = d.word(in.K)
	case opLdLen:
		m.a = dataSize
	case opLdxLen:
		m.x = dataSize
	case opLdImm:
		m.a = in.K
	case opLdxImm:
		m.x = in.K
	case opLdMem, opLdxMem, opSt, opStx:
		return m.scratch(in)
	case opTax:
		m.x = m.a
	case opTxa:
		m.a = m.x
	case opNeg:
		m.a = -m.a
	default:
		if in.Code&classMask != unix.BPF_ALU {
			return fmt.Errorf("code %#x is not for seccomp", in.Code)
		}
		m.a, err = alu(in.Code&operationMask, m.a, m.operand(in))
	}
	return err
}

// scratch loads or stores a word of the scratch memory.
func (m *machine) scratch(in Insn) error {
	if in.K >= uint32(len(m.mem)) {
		return fmt.Errorf("scratch word %d of %d", in.K, len(m.mem))
	}
	switch in.Code {
	case opLdMem:
		m.a = m.mem[in.K]
	case opLdxMem:
		m.x = m.mem[in.K]
	case opSt:
		m.mem[in.K] = m.a
	case opStx:
		m.mem[in.K] = m.x
	}
	return nil
}

// alu does one arithmetic operation. A division by zero ends a filter with
// verdict 0 in the kernel (kill); constant zero divisors are not loaded.
func alu(op uint16, a, v uint32) (uint32, error) {
	switch op {
	case unix.BPF_ADD:
		return a + v, nil
	case unix.BPF_SUB:
		return a - v, nil
	case unix.BPF_MUL:
		return a * v, nil
	case unix.BPF_DIV:
		if v == 0 {
			return 0, errors.New("division by zero")
		}
		return a / v, nil
	case unix.BPF_OR:
		return a | v, nil
	case unix.BPF_AND:
		return a & v, nil
	case unix.BPF_LSH:
		return a << (v & 31), nil
	case unix.BPF_RSH:
		return a >> (v & 31), nil
	case unix.BPF_XOR:
		return a ^ v, nil
	}
	return 0, fmt.Errorf("arithmetic %#x is not for seccomp", op)
}

// word reads one aligned 32-bit word of struct seccomp_data (little endian).
func (d *Data) word(off uint32) (uint32, error) {
	if off >= dataSize || off%4 != 0 {
		return 0, fmt.Errorf("load at offset %d of seccomp_data", off)
	}
	switch {
	case off == 0:
		return d.NR, nil
	case off == 4:
		return d.Arch, nil
	case off < 16:
		return half(d.IP, off&4), nil
	}
	return half(d.Args[(off-16)/8], off&4), nil
}

func half(v uint64, hi uint32) uint32 {
	if hi != 0 {
		return uint32(v >> 32)
	}
	return uint32(v)
}

// Stacked returns the action for a process with these filters, the oldest first: the kernel runs
// all and takes the strictest action; of equal ones that of the newest filter
// (seccomp_run_filters). Errors as for Run.
func Stacked(progs [][]Insn, d *Data) (uint32, error) {
	ret := uint32(RetAllow)
	for i := len(progs) - 1; i >= 0; i-- {
		v, err := Run(progs[i], d)
		if err != nil {
			return 0, fmt.Errorf("filter %d: %w", i, err)
		}
		// As signed numbers the actions are in the order of strictness.
		if int32(v&RetActionFull) < int32(ret&RetActionFull) {
			ret = v
		}
	}
	return ret, nil
}
