//go:build cgo

package prove

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp/bpf"
)

//go:embed kernelctf.json
var kernelCTFData []byte

// Entry is one kernel entry point of public exploits.
type Entry struct {
	// Name says what the exploits used.
	Name string `json:"name"`
	// Submissions is how many of the 100 public kernelCTF submissions
	// document this prerequisite.
	Submissions int `json:"submissions"`
	// Ways are the calls that give the prerequisite; one that passes opens
	// the entry.
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

// KernelCTF is the table of entry points that real exploits used, counted from
// the metadata of the 100 public kernelCTF submissions of a 2026 snapshot.
// Errors: none unless the embedded table is broken.
func KernelCTF() ([]Entry, error) {
	var t struct {
		Entries []Entry `json:"entries"`
	}
	if err := json.Unmarshal(kernelCTFData, &t); err != nil {
		return nil, fmt.Errorf("reading the table of entry points: %w", err)
	}
	return t.Entries, nil
}

// OpenEntries lists the entry points that a compiled filter leaves open.
func OpenEntries(prog []bpf.Insn, arch specs.Arch) ([]Entry, error) {
	entries, err := KernelCTF()
	if err != nil {
		return nil, err
	}
	var open []Entry
	for _, e := range entries {
		for _, w := range e.Ways {
			p, ok, err := partial(w.Call, arch)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue // this architecture or library has no such call
			}
			for _, a := range w.Args {
				p = p.With(a.Index, a.Mask, a.Value)
			}
			passes, err := bpf.Passes(prog, p)
			if err != nil {
				return nil, fmt.Errorf("exploring %s: %w", w.Call, err)
			}
			if passes {
				open = append(open, e)
				break
			}
		}
	}
	return open, nil
}
