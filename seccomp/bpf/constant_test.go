package bpf

import "testing"

func TestConstant(t *testing.T) {
	const allow = RetAllow
	for _, c := range []struct {
		name string
		prog []Insn
		want bool
	}{
		{"allowed by number", []Insn{ld(4), jeq(ArchX86_64, 0, 3), ld(0), jeq(7, 0, 1), ret(allow), ret(1)}, true},
		{"refused by number", []Insn{ld(0), jeq(8, 0, 1), ret(allow), ret(1)}, false},
		{"allowed by range and bits", []Insn{ld(0), {Code: 0x54, K: 6}, jump(0x35, 6, 0, 3), jump(0x45, 2, 0, 2), jump(0x25, 6, 1, 0), ret(allow), ret(1)}, true},
		{"long jump", []Insn{{Code: opJa, K: 1}, ret(1), ret(allow)}, true},
		{"an argument that does not matter", []Insn{ld(16), jeq(0, 0, 0), ret(allow)}, false},
		{"an argument of another call", []Insn{ld(0), jeq(8, 0, 1), ld(16), ret(allow)}, true},
		{"logged", []Insn{ret(RetLog)}, false},
		{"verdict in the accumulator", []Insn{{Code: opLdImm, K: allow}, {Code: opRetA}}, false},
		{"arithmetic that the kernel does not follow", []Insn{ld(0), {Code: 0x44, K: 0}, ret(allow)}, false},
		{"no end", []Insn{ld(0)}, false},
	} {
		if got := Constant(c.prog, ArchX86_64, 7); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
