package bpf

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func ld(off uint32) Insn                       { return Insn{Code: opLdAbs, K: off} }
func jeq(k uint32, t, f uint8) Insn            { return jump(opJeq, k, t, f) }
func jump(c uint16, k uint32, t, f uint8) Insn { return Insn{Code: c, Jt: t, Jf: f, K: k} }
func ret(k uint32) Insn                        { return Insn{Code: opRetK, K: k} }

func TestRun(t *testing.T) {
	d := &Data{NR: 7, Arch: ArchX86_64, IP: 0x1122334455667788, Args: [6]uint64{0xaaaabbbbccccdddd, 0, 0, 0, 0, 0x12}}
	for _, c := range []struct {
		name string
		prog []Insn
		want uint32
	}{
		{"number", []Insn{ld(0), {Code: opRetA}}, 7},
		{"architecture", []Insn{ld(4), {Code: opRetA}}, ArchX86_64},
		{"instruction pointer, high half", []Insn{ld(12), {Code: opRetA}}, 0x11223344},
		{"first argument, low half", []Insn{ld(16), {Code: opRetA}}, 0xccccdddd},
		{"first argument, high half", []Insn{ld(20), {Code: opRetA}}, 0xaaaabbbb},
		{"last argument", []Insn{ld(56), {Code: opRetA}}, 0x12},
		{"equal", []Insn{ld(0), jeq(7, 0, 1), ret(1), ret(2)}, 1},
		{"not equal", []Insn{ld(0), jeq(8, 0, 1), ret(1), ret(2)}, 2},
		{"greater", []Insn{ld(0), jump(0x25, 7, 0, 1), ret(1), ret(2)}, 2},
		{"greater or equal", []Insn{ld(0), jump(0x35, 7, 0, 1), ret(1), ret(2)}, 1},
		{"bit set", []Insn{ld(0), jump(0x45, 4, 0, 1), ret(1), ret(2)}, 1},
		{"and", []Insn{ld(0), {Code: 0x54, K: 3}, {Code: opRetA}}, 3},
		{"or, shift, xor, subtract", []Insn{ld(0), {Code: 0x44, K: 8}, {Code: 0x64, K: 1}, {Code: 0xa4, K: 1}, {Code: 0x14, K: 1}, {Code: opRetA}}, 30},
		{"register", []Insn{ld(0), {Code: opTax}, {Code: opLdImm, K: 5}, {Code: 0x0c}, {Code: opRetA}}, 12},
		{"scratch memory", []Insn{ld(0), {Code: opSt, K: 3}, {Code: opLdImm}, {Code: opLdMem, K: 3}, {Code: opRetA}}, 7},
		{"long jump", []Insn{{Code: opJa, K: 1}, ret(1), ret(2)}, 2},
		{"length", []Insn{{Code: opLdLen}, {Code: opRetA}}, 64},
		{"negative", []Insn{ld(0), {Code: opNeg}, {Code: opRetA}}, 0xfffffff9},
	} {
		got, err := Run(c.prog, d)
		if err != nil || got != c.want {
			t.Errorf("%s: %#x, %v; want %#x", c.name, got, err, c.want)
		}
	}
	for name, prog := range map[string][]Insn{
		"runs off":         {ld(0)},
		"jumps off":        {{Code: opJa, K: 9}, ret(0)},
		"unaligned load":   {ld(2), ret(0)},
		"load outside":     {ld(64), ret(0)},
		"packet load":      {{Code: 0x28, K: 0}, ret(0)},
		"scratch outside":  {{Code: opSt, K: 16}, ret(0)},
		"division by zero": {{Code: 0x34, K: 0}, ret(0)},
	} {
		if v, err := Run(prog, d); err == nil {
			t.Errorf("%s: ran and answered %#x", name, v)
		}
	}
}

func TestParse(t *testing.T) {
	prog, err := Parse([]byte{0x15, 0, 1, 2, 0x78, 0x56, 0x34, 0x12})
	if err != nil || !slices.Equal(prog, []Insn{jeq(0x12345678, 1, 2)}) {
		t.Errorf("%v, %v", prog, err)
	}
	for _, bad := range [][]byte{nil, make([]byte, 7), make([]byte, 8*(MaxInsns+1))} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%d bytes: no error", len(bad))
		}
	}
}

// Whatever a random call gets from a random program, exploring any partial
// call that it fits must list.
func TestVerdictsCoverRun(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []uint32{0, 1, 2, 3, 7, 8, 0xff, 0x10000, 0x7e020000, 0xffffffff}
	v := func() uint32 { return values[r.IntN(len(values))] }
	passed := 0
	for range 20000 {
		var prog []Insn
		n := 4 + r.IntN(24)
		for i := range n {
			left := n - i // instructions after this one, with the last ret
			switch r.IntN(5) {
			case 0, 1:
				prog = append(prog, ld(uint32(r.IntN(8))*4))
			case 2:
				prog = append(prog, Insn{Code: 0x54, K: v()})
			default:
				prog = append(prog, Insn{Code: []uint16{0x15, 0x25, 0x35, 0x45}[r.IntN(4)], Jt: uint8(r.IntN(left)), Jf: uint8(r.IntN(left)), K: v()})
			}
			if r.IntN(6) == 0 {
				prog[len(prog)-1] = ret(uint32(i))
			}
		}
		prog = append(prog, ret(99))
		d := Data{NR: v(), Arch: v()}
		p := Partial{NRMask: v(), ArchMask: v()}
		p.NR, p.Arch = d.NR, d.Arch
		for i := range d.Args {
			d.Args[i] = uint64(v()) | uint64(v())<<32
			p.ArgMasks[i], p.Args[i] = uint64(v())|uint64(v())<<32, d.Args[i]
		}
		got, err := Run(prog, &d)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Verdicts(prog, p)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(all, got) {
			t.Fatalf("%v on %+v gives %d, explored %v", prog, d, got, all)
		}
		if len(all) == 1 {
			passed++
		}
	}
	if passed < 1000 {
		t.Errorf("only %d of 20000 explorations were exact: they state too little", passed)
	}
}
