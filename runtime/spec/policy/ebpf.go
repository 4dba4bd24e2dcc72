package policy

import (
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/spec/lists"
)

// EBPF lists the actions that eBPF programs refuse to jails beyond their default
// (runtime/observe/ebpf).
type EBPF struct {
	// Block names the refused actions, of Blockable. If the host cannot refuse one, no jail is
	// made.
	Block []string `toml:"block" json:"block,omitempty"`
}

// Blockable are the names of EBPF.Block.
var Blockable = []string{
	"exec",    // executing files that were written in the jail, in no mounted directory
	"trace",   // tracing, and reading the memory of, processes of the same jail
	"connect", // connecting sockets of the internet's families
	"bind",    // assigning an address
}

func (e EBPF) validate() error {
	for _, name := range e.Block {
		if !slices.Contains(Blockable, name) {
			return fmt.Errorf("ebpf.block: %q is not one of %s", name, strings.Join(Blockable, ", "))
		}
	}
	return nil
}

// more is a container's annotation: names, separated by commas, that are refused too.
func (e *EBPF) more(v string) (bool, error) {
	add := EBPF{Block: strings.Split(v, ",")}
	if err := add.validate(); err != nil {
		return false, err
	}
	before := len(e.Block)
	e.Block = lists.Union(slices.Clone(e.Block), add.Block...)
	return len(e.Block) > before, nil
}
