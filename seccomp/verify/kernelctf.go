package verify

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"agentjail.dev/seccomp/bpf"
)

//go:embed kernelctf.json
var kernelCTFData []byte

// Entry is one kernel entry point of public exploits.
type Entry struct {
	// Name reports what the exploits used.
	Name string `json:"name"`
	// Submissions is how many of the 100 public kernelCTF submissions
	// document this prerequisite.
	Submissions int `json:"submissions"`
	// Ways are the calls that provide the prerequisite; one that passes opens the entry.
	Ways []Way `json:"ways"`
}

// Way is a system call with what is known of its arguments.
type Way struct {
	Call string `json:"call"`
	Args []struct {
		Index int    `json:"index"`
		Mask  uint64 `json:"mask"`
		Value uint64 `json:"value"`
	} `json:"args"`
}

// kernelCTF is the table of entry points that real exploits used, counted from
// the metadata of the 100 public kernelCTF submissions of a 2026 snapshot.
// Errors: none unless the embedded table is broken.
func kernelCTF() ([]Entry, error) {
	var t struct {
		Entries []Entry `json:"entries"`
	}
	if err := json.Unmarshal(kernelCTFData, &t); err != nil {
		return nil, fmt.Errorf("reading the table of entry points: %w", err)
	}
	return t.Entries, nil
}

// OpenEntries lists the entry points that a process's filters leave open; arch
// is a GOARCH.
func OpenEntries(progs [][]bpf.Insn, arch string) ([]Entry, error) {
	p, err := newStack(progs, "", arch)
	if err != nil {
		return nil, err
	}
	return p.openEntries()
}

func (p *stack) openEntries() ([]Entry, error) {
	entries, err := kernelCTF()
	if err != nil {
		return nil, err
	}
	var open []Entry
	for _, e := range entries {
		passes, err := p.some(e.Ways)
		if err != nil {
			return nil, err
		}
		if passes {
			open = append(open, e)
		}
	}
	return open, nil
}

// some reports whether one of the ways passes.
func (p *stack) some(ways []Way) (bool, error) {
	for _, w := range ways {
		c, ok := p.call(w.Call)
		if !ok {
			continue // this architecture has no such call
		}
		for _, a := range w.Args {
			c = c.With(a.Index, a.Mask, a.Value)
		}
		passes, err := p.passes(c)
		if err != nil {
			return false, fmt.Errorf("exploring %s: %w", w.Call, err)
		}
		if passes {
			return true, nil
		}
	}
	return false, nil
}
