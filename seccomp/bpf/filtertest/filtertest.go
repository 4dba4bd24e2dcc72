// Package filtertest judges calls by filters as the kernel does, for tests.
package filtertest

import (
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/seccomp/bpf"
)

// Runner returns a function that has a filter judge a call, and returns what seccomp(2) calls its
// return value.
func Runner(t *testing.T, filter []unix.SockFilter) func(arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	return func(arch, nr uint32, args ...uint64) uint32 {
		d := &bpf.Data{NR: nr, Arch: arch}
		copy(d.Args[:], args)
		v, err := bpf.Run(filter, d)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Matches judges a call by the conditions of a rule as runc does: conditions on one argument are
// alternatives. readable is false if a condition has no argument or operator of OCI's.
func Matches(conds []specs.LinuxSeccompArg, args [6]uint64) (matches, readable bool) {
	all, any, twice := true, false, false
	for i, c := range conds {
		if c.Index > 5 {
			return false, false
		}
		x, ok := args[c.Index], false
		switch c.Op {
		case specs.OpEqualTo:
			ok = x == c.Value
		case specs.OpNotEqual:
			ok = x != c.Value
		case specs.OpLessThan:
			ok = x < c.Value
		case specs.OpLessEqual:
			ok = x <= c.Value
		case specs.OpGreaterThan:
			ok = x > c.Value
		case specs.OpGreaterEqual:
			ok = x >= c.Value
		case specs.OpMaskedEqual:
			ok = x&c.Value == c.ValueTwo
		default:
			return false, false
		}
		all, any = all && ok, any || ok
		twice = twice || slices.ContainsFunc(conds[:i], func(d specs.LinuxSeccompArg) bool { return d.Index == c.Index })
	}
	return all || twice && any, true
}
