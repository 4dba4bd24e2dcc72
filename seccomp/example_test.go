package seccomp_test

import (
	"fmt"

	"agentjail.dev/seccomp"
)

func ExampleOCI() {
	section, err := seccomp.OCI(seccomp.Options{Profile: "default", Arch: "amd64"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(section.DefaultAction, section.Architectures)
	fmt.Println(seccomp.ErrnoName(1))
	// Output:
	// SCMP_ACT_ERRNO [SCMP_ARCH_X86_64]
	// EPERM
}
