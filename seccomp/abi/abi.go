// Package abi knows the numbers of system calls, for every architecture that
// agentjail supports whatever it runs on: filters for one may be made, shown
// and proved on another.
package abi

import (
	"slices"
	"strings"
)

//go:generate go run generate.go

// call is a system call with its number on each architecture; none where the
// architecture does not have it.
type call struct {
	name         string
	amd64, arm64 int16
}

const none = -1

// Limit is above every number of the table.
const Limit = 512

// on is the call's number on an architecture.
func (c *call) on(arch string) (uint32, bool) {
	nr := int16(none)
	switch arch {
	case "amd64":
		nr = c.amd64
	case "arm64":
		nr = c.arm64
	}
	return uint32(nr), nr >= 0
}

// Number is the number of a call by libseccomp's name for it (which is the kernel's, without
// __NR_), on a GOARCH: amd64 or arm64. ok is false where there is no such call or architecture, and
// for calls newer than the table, which is that of golang.org/x/sys/unix.
func Number(name, arch string) (nr uint32, ok bool) {
	i, ok := slices.BinarySearchFunc(calls[:], name, func(c call, n string) int { return strings.Compare(c.name, n) })
	if !ok {
		return 0, false
	}
	return calls[i].on(arch)
}

// Name is the name of a call by number; empty for a number that is none.
func Name(nr uint32, arch string) string {
	for i := range calls {
		if n, ok := calls[i].on(arch); ok && n == nr {
			return calls[i].name
		}
	}
	return ""
}

// Names lists the calls of an architecture, sorted.
func Names(arch string) []string {
	var out []string
	for i := range calls {
		if _, ok := calls[i].on(arch); ok {
			out = append(out, calls[i].name)
		}
	}
	return out
}
