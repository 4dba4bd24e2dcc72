#include "textflag.h"

// func rawCloneAndCall(flags uintptr, first *call, n uintptr) (r int64)
TEXT ·rawCloneAndCall(SB), NOSPLIT, $0-32
	MOVQ flags+0(FP), DI
	MOVQ first+8(FP), R12 // these stay as they are in system calls
	MOVQ n+16(FP), R13
	XORL BX, BX           // the result before
	XORL SI, SI           // the caller's stack
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $56, AX          // clone
	SYSCALL
	TESTQ AX, AX
	JNZ  parent
next:
	TESTQ R13, R13
	JZ   end
	MOVQ 0(R12), AX
	MOVQ 8(R12), DI
	MOVQ 16(R12), SI
	MOVQ 24(R12), DX
	MOVQ 32(R12), R10
	MOVQ 40(R12), R8
	CMPQ DI, $-3          // previous
	JNE  call
	MOVQ BX, DI
call:
	SYSCALL
	MOVQ AX, 48(R12)
	MOVQ AX, BX
	TESTQ AX, AX
	JLT  end
	ADDQ $72, R12
	DECQ R13
	JMP  next
end:
	XORL DI, DI
	MOVL $60, AX          // exit
	SYSCALL
	INT  $3
parent:
	MOVQ AX, r+24(FP)
	RET
