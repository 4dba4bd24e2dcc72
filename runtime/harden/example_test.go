package harden_test

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/policy"
)

func ExampleProcess() {
	in := &specs.Process{
		Args: []string{"sh"}, Cwd: "/",
		Capabilities: &specs.LinuxCapabilities{Effective: []string{"CAP_SYS_ADMIN"}, Permitted: []string{"CAP_SYS_ADMIN"}},
	}
	out, changes, err := harden.Process(in, policy.Default(), harden.Facts{IDs: idmap.ForBlock(idmap.DefaultPool(), false, 0)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Capabilities.Effective, out.NoNewPrivileges)
	for _, c := range changes.Changes {
		if c.Field == "process.capabilities" {
			fmt.Println(c.Field)
		}
	}
	// Output:
	// [] true
	// process.capabilities
}
