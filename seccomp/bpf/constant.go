package bpf

// Constant reports whether the kernel knows, when it loads this filter, that it allows a call
// whatever its arguments: then, if all older filters of the process do too, it answers the call
// from a bitmap and runs no filter at all (Linux 5.11, kernel/seccomp.c, seccomp_is_const_allow).
// The kernel follows the program for one number and architecture and stops at the first
// instruction that reads anything else, and at every one that it does not follow: so what is
// allowed in the end by all arguments is not constant if some argument was looked at on the way.
//
// The verdict must be ALLOW itself. The bitmap is kept for the native architecture, and on x86_64
// for i386 too.
func Constant(prog []Insn, arch, nr uint32) bool {
	var a uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		taken := false
		switch in.Code {
		case opLdAbs:
			switch in.K {
			case 0:
				a = nr
			case 4:
				a = arch
			default:
				return false
			}
			continue
		case opRetK:
			return in.K == RetAllow
		case opJa:
			pc += int(in.K)
			continue
		case opAnd:
			a &= in.K
			continue
		case opJeq, opJgt, opJge, opJset:
			taken = compare(in.Code, a, in.K)
		default:
			return false
		}
		if taken {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	return false
}
