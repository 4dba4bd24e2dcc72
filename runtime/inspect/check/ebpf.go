package check

import (
	"agentjail.dev/runtime/observe/ebpf"
	"agentjail.dev/runtime/observe/ebpf/status"
)

// ebpfPrograms tries what eBPF programs can do. The kernel's list of security modules does not show
// it (ebpf.Probe).
func ebpfPrograms(*env) answer {
	const kernel = "boot a kernel with CONFIG_DEBUG_INFO_BTF that lets programs be attached to its functions (Debian 12 and 13, Ubuntu 22.04 and later do)"
	acting := status.Acting()
	can, err := ebpf.Probe()
	switch {
	case can == ebpf.Blocks && acting:
		return ok("blocks: tried; those of agentjail-journal act behind the system call filters")
	case can == ebpf.Blocks:
		return ok("blocks: tried; none are loaded (`systemctl start agentjail-journal` loads them)")
	case can == ebpf.Watches:
		return warn(kernel, "watches: executed programs and, by `agentjail-journal --syscalls`, refused system calls can be reported, nothing refused: %v", err)
	}
	return warn(kernel, "absent: %v", err)
}

// userPrograms: loading is root's, and root's programs know the jails of root's pool.
func userPrograms(*env) answer {
	return warn(asRoot, "absent: the programs are root's, and know the jails of root's engines alone")
}
