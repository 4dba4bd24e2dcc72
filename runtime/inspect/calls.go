package inspect

import (
	"os"
	"runtime"

	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// Calls counts the system calls of this architecture by what a filter does with
// them. Tools that try calls count one errno only, and miss what answers another.
type Calls struct {
	// Pass is how many pass for some arguments, Checked how many of these not for all.
	Pass    int `json:"pass"`
	Checked int `json:"checked"`
	// Refused is how many pass for none.
	Refused int `json:"refused"`
}

// callsOf explores the filter in a file; nil where there is none that can be read.
func callsOf(path string) *Calls {
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) == 0 {
		return nil
	}
	prog, err := bpf.Parse(raw)
	if err != nil {
		return nil
	}
	c, err := countCalls(prog, runtime.GOARCH)
	if err != nil {
		return nil
	}
	return c
}

// countCalls explores a filter with all arguments unknown.
func countCalls(prog []bpf.Insn, arch string) (*Calls, error) {
	var c Calls
	audit := bpf.AuditArch(arch)
	for _, name := range abi.Names(arch) {
		nr, _ := abi.Number(name, arch)
		answers, err := bpf.Verdicts(prog, bpf.Call(audit, nr))
		if err != nil {
			return nil, err
		}
		pass := 0
		for _, v := range answers {
			if a := v & bpf.RetActionFull; a == bpf.RetAllow || a == bpf.RetLog {
				pass++
			}
		}
		switch {
		case pass == 0:
			c.Refused++
		case pass < len(answers):
			c.Checked++
			fallthrough
		default:
			c.Pass++
		}
	}
	return &c, nil
}
