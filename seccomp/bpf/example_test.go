package bpf_test

import (
	"fmt"

	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
)

func ExampleRun() {
	program, err := compiler.Program("default", "amd64", false)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, call := range []struct {
		name   string
		number uint32
	}{{"read", 0}, {"mount", 165}} {
		verdict, err := bpf.Run(program, &bpf.Data{Arch: bpf.AuditArch("amd64"), NR: call.number})
		fmt.Println(call.name, verdict == bpf.RetAllow, err)
	}
	// Output:
	// read true <nil>
	// mount false <nil>
}
