#include "textflag.h"

// func rawCloneAndExit(flags uintptr) (r int64)
TEXT ·rawCloneAndExit(SB), NOSPLIT, $0-16
	MOVQ flags+0(FP), DI
	XORL SI, SI           // the caller's stack
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $56, AX          // clone
	SYSCALL
	TESTQ AX, AX
	JNZ  parent
	XORL DI, DI
	MOVL $60, AX          // exit
	SYSCALL
	INT  $3
parent:
	MOVQ AX, r+8(FP)
	RET
