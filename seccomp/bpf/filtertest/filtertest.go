// Package filtertest runs filters of package callfilter as the kernel does, for tests.
package filtertest

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/seccomp/bpf"
)

// Runner returns a function that has a filter judge a call, and returns what seccomp(2) calls its
// return value.
func Runner(t *testing.T, filter []unix.SockFilter) func(arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	var raw bytes.Buffer
	for _, i := range filter {
		_ = binary.Write(&raw, binary.NativeEndian, i)
	}
	prog, err := bpf.Parse(raw.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return func(arch, nr uint32, args ...uint64) uint32 {
		d := &bpf.Data{NR: nr, Arch: arch}
		copy(d.Args[:], args)
		v, err := bpf.Run(prog, d)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
