// Package bpf runs classic BPF programs the way the kernel's seccomp runs
// them (Documentation/networking/filter.rst, kernel/seccomp.c): a filter can
// be judged by what it answers, not by how it was written.
package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Insn is one classic BPF instruction (struct sock_filter).
type Insn struct {
	Code   uint16
	Jt, Jf uint8
	K      uint32
}

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
	RetUserNotif   = 0x7fc00000
	RetTrace       = 0x7ff00000
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
	opLdAbs  = 0x20 // BPF_LD | BPF_W | BPF_ABS
	opLdLen  = 0x80 // BPF_LD | BPF_W | BPF_LEN
	opLdImm  = 0x00
	opLdMem  = 0x60
	opLdxLen = 0x81
	opLdxImm = 0x01
	opLdxMem = 0x61
	opSt     = 0x02
	opStx    = 0x03
	opRetK   = 0x06
	opRetA   = 0x16
	opTax    = 0x07
	opTxa    = 0x87
	opNeg    = 0x84
	opJa     = 0x05
)

// dataSize is sizeof(struct seccomp_data).
const dataSize = 64

// Run answers what the filter returns for d. Errors: an instruction that the
// kernel would not have loaded, or running off the end.
func Run(prog []Insn, d *Data) (uint32, error) {
	var a, x uint32
	var mem [16]uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		switch in.Code {
		case opLdAbs:
			w, err := d.word(in.K)
			if err != nil {
				return 0, fmt.Errorf("instruction %d: %w", pc, err)
			}
			a = w
		case opLdLen:
			a = dataSize
		case opLdxLen:
			x = dataSize
		case opLdImm:
			a = in.K
		case opLdxImm:
			x = in.K
		case opLdMem, opLdxMem, opSt, opStx:
			if in.K >= uint32(len(mem)) {
				return 0, fmt.Errorf("instruction %d: scratch word %d of %d", pc, in.K, len(mem))
			}
			switch in.Code {
			case opLdMem:
				a = mem[in.K]
			case opLdxMem:
				x = mem[in.K]
			case opSt:
				mem[in.K] = a
			case opStx:
				mem[in.K] = x
			}
		case opRetK:
			return in.K, nil
		case opRetA:
			return a, nil
		case opTax:
			x = a
		case opTxa:
			a = x
		case opNeg:
			a = -a
		case opJa:
			pc += int(in.K)
		default:
			v := in.K
			if in.Code&0x08 != 0 { // BPF_X
				v = x
			}
			switch in.Code & 0x07 {
			case 0x05: // BPF_JMP
				ok := false
				switch in.Code & 0xf0 {
				case 0x10:
					ok = a == v
				case 0x20:
					ok = a > v
				case 0x30:
					ok = a >= v
				case 0x40:
					ok = a&v != 0
				default:
					return 0, fmt.Errorf("instruction %d: code %#x is not for seccomp", pc, in.Code)
				}
				if ok {
					pc += int(in.Jt)
				} else {
					pc += int(in.Jf)
				}
			case 0x04: // BPF_ALU
				r, err := alu(in.Code&0xf0, a, v)
				if err != nil {
					return 0, fmt.Errorf("instruction %d: %w", pc, err)
				}
				a = r
			default:
				return 0, fmt.Errorf("instruction %d: code %#x is not for seccomp", pc, in.Code)
			}
		}
	}
	return 0, errors.New("BPF program runs off its end")
}

// alu does one arithmetic operation. A division by zero ends a filter with
// verdict 0 in the kernel (kill); constant zero divisors are not loaded.
func alu(op uint16, a, v uint32) (uint32, error) {
	switch op {
	case 0x00:
		return a + v, nil
	case 0x10:
		return a - v, nil
	case 0x20:
		return a * v, nil
	case 0x30:
		if v == 0 {
			return 0, errors.New("division by zero")
		}
		return a / v, nil
	case 0x40:
		return a | v, nil
	case 0x50:
		return a & v, nil
	case 0x60:
		return a << (v & 31), nil
	case 0x70:
		return a >> (v & 31), nil
	case 0xa0:
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
