#include "textflag.h"

// func rawCloneAndCall(flags uintptr, first *call, n uintptr) (r int64)
TEXT ·rawCloneAndCall(SB), NOSPLIT, $0-32
	MOVD flags+0(FP), R0
	MOVD first+8(FP), R19 // these stay as they are in system calls
	MOVD n+16(FP), R20
	MOVD $0, R21          // the result before
	MOVD $0, R1           // the caller's stack
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	MOVD $220, R8         // clone
	SVC
	CBNZ R0, parent
next:
	CBZ  R20, end
	MOVD 0(R19), R8
	MOVD 8(R19), R0
	MOVD 16(R19), R1
	MOVD 24(R19), R2
	MOVD 32(R19), R3
	MOVD 40(R19), R4
	CMN  $3, R0           // previous
	BNE  call
	MOVD R21, R0
call:
	SVC
	MOVD R0, 48(R19)
	MOVD R0, R21
	CMP  $0, R0
	BLT  end
	ADD  $72, R19
	SUB  $1, R20
	B    next
end:
	MOVD $0, R0
	MOVD $93, R8          // exit
	SVC
	BRK  $0
parent:
	MOVD R0, r+24(FP)
	RET
