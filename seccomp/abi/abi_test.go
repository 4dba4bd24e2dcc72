package abi

import (
	"slices"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	if !slices.IsSortedFunc(calls[:], func(a, b call) int { return strings.Compare(a.name, b.name) }) {
		t.Error("the table is not sorted: run go generate")
	}
	for arch, want := range map[string]map[string]uint32{
		"amd64": {"read": 0, "open": 2, "execve": 59, "newfstatat": 262, "io_uring_setup": 425, "landlock_restrict_self": 446},
		"arm64": {"read": 63, "openat": 56, "execve": 221, "newfstatat": 79, "io_uring_setup": 425, "landlock_restrict_self": 446},
	} {
		for name, nr := range want {
			if got, ok := Number(name, arch); !ok || got != nr || Name(nr, arch) != name {
				t.Errorf("%s on %s: %d, %v, want %d; that is %q", name, arch, got, ok, nr, Name(nr, arch))
			}
		}
		seen := map[uint32]string{}
		for _, name := range Names(arch) {
			nr, ok := Number(name, arch)
			if !ok || nr >= Limit || seen[nr] != "" {
				t.Errorf("%s on %s: %d, %v, as %q", name, arch, nr, ok, seen[nr])
			}
			seen[nr] = name
		}
		if len(seen) < 300 {
			t.Errorf("%d calls on %s", len(seen), arch)
		}
	}
	for _, x := range [][2]string{{"no_such_call", "amd64"}, {"open", "arm64"}, {"read", "riscv64"}, {"read", ""}} {
		if nr, ok := Number(x[0], x[1]); ok {
			t.Errorf("%v has number %d", x, nr)
		}
	}
	if n := Name(5000, "amd64"); n != "" {
		t.Errorf("5000 is %s", n)
	}
}
