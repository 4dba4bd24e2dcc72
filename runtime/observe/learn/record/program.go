package record

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Places on the program's stack.
const (
	atJail  = -4  // u32: the user namespace's number
	atNr    = -8  // u32: the call's number, key of masks
	atCount = -16 // u64: 1
	atZero  = -20 // u32: 0, key of lost
	atKey   = -88 // key
)

// Offsets in key.
const (
	keyNumber = 0
	keyErrno  = 4
	keyArgs   = 8
	keyJail   = 56
	keyPad    = 60
)

// program is the one of a tracepoint: of sys_enter it counts every call, of sys_exit those that
// failed.
func (r *Recorder) program(o *offsets, exit bool) *ebpf.ProgramSpec {
	ins := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	if exit {
		// An errno is -1 to -4095. 64-bit numbers: anything else is at most as large as a pointer.
		ins = append(ins,
			asm.LoadMem(asm.R9, asm.R6, 8, asm.DWord),
			asm.JSGE.Imm(asm.R9, 0, "out"),
			asm.JSLT.Imm(asm.R9, -4095, "out"),
		)
	}
	ins = append(ins,
		asm.FnGetCurrentTaskBtf.Call(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.LoadMem(asm.R1, asm.R8, o.cred, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, o.userns, asm.DWord),
		asm.LoadMem(asm.R2, asm.R1, o.level, asm.Word),
		asm.JEq.Imm(asm.R2, 0, "out"), // the machine's own processes
		asm.LoadMem(asm.R2, asm.R1, o.inum, asm.Word),
		asm.StoreMem(asm.RFP, atJail, asm.R2, asm.Word),
		asm.LoadMapPtr(asm.R1, r.watched.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atJail),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
		asm.LoadMem(asm.R2, asm.R8, o.filters, asm.Word),
		asm.JLT.Reg(asm.R2, asm.R1, "out"), // the init step
		asm.LoadMem(asm.R7, asm.R6, 0, asm.DWord),
	)
	size := asm.Word
	if o.wide {
		size = asm.DWord
	}
	ins = append(ins,
		asm.LoadMem(asm.R8, asm.R7, o.number, size),
		asm.StoreMem(asm.RFP, atNr, asm.R8, asm.Word),
		asm.StoreMem(asm.RFP, atKey+keyNumber, asm.R8, asm.Word),
		asm.StoreImm(asm.RFP, atKey+keyErrno, 0, asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, atJail, asm.Word),
		asm.StoreMem(asm.RFP, atKey+keyJail, asm.R1, asm.Word),
		asm.StoreImm(asm.RFP, atKey+keyPad, 0, asm.Word),
	)
	if exit {
		ins = append(ins, asm.Neg.Imm(asm.R9, 0), asm.StoreMem(asm.RFP, atKey+keyErrno, asm.R9, asm.Word))
	}
	ins = append(ins,
		asm.LoadMapPtr(asm.R1, r.masks.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atNr),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
	)
	for i, at := range o.args {
		ins = append(ins,
			asm.LoadMem(asm.R1, asm.R7, at, asm.DWord),
			asm.LoadMem(asm.R2, asm.R0, int16(8*i), asm.DWord),
			asm.And.Reg(asm.R1, asm.R2),
			asm.StoreMem(asm.RFP, atKey+keyArgs+int16(8*i), asm.R1, asm.DWord),
		)
	}
	ins = append(ins, r.count()...)
	return &ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, License: "Dual MIT/GPL", Instructions: ins}
}

// count adds one to the key on the stack.
func (r *Recorder) count() asm.Instructions {
	keyIn := func(to asm.Register) asm.Instructions {
		return asm.Instructions{asm.Mov.Reg(to, asm.RFP), asm.Add.Imm(to, atKey)}
	}
	ins := asm.Instructions{asm.LoadMapPtr(asm.R1, r.seen.FD())}
	ins = append(ins, keyIn(asm.R2)...)
	ins = append(ins,
		asm.FnMapLookupElem.Call(),
		asm.JNE.Imm(asm.R0, 0, "add"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, atCount, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, r.seen.FD()),
	)
	ins = append(ins, keyIn(asm.R2)...)
	return append(ins,
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, atCount),
		asm.Mov.Imm(asm.R4, 0), // BPF_ANY
		asm.FnMapUpdateElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		// No room.
		asm.StoreImm(asm.RFP, atZero, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, r.lost.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, atZero),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1).WithSymbol("add"),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
}
