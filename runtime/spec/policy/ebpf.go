package policy

import (
	"fmt"
	"slices"
	"strings"
)

// EBPF decides what eBPF programs refuse to jails beyond their default (runtime/observe/ebpf).
type EBPF struct {
	// Block names what is refused, of Blockable. A jail that cannot be refused it is not made.
	Block []string `toml:"block" json:"block,omitempty"`
}

// Blockable are the names of EBPF.Block.
var Blockable = []string{
	"exec",    // executing files that were written in the jail, in no mounted directory
	"trace",   // tracing, and reading the memory of, processes of the same jail
	"connect", // connecting sockets of the internet's families
	"bind",    // giving them an address
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
	all, before := slices.Clone(e.Block), len(e.Block)
	for _, name := range add.Block {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	e.Block = all
	return len(all) > before, nil
}
