package inspect

import (
	"slices"

	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/rings"
)

// A check holds one protection against the jail's policy. It is a function of what was seen: it
// does not query the kernel.
type check struct {
	ring rings.Ring
	name string
	run  func(*demands, *seen) outcome
}

// checks are all checks of a jail, in the order of the output: the outermost ring first.
var checks = []check{
	{rings.Resources, "namespaces", namespaces},
	{rings.Resources, "namespace owner", namespaceOwner},
	{rings.Resources, "resource accounting user", countedFor},
	{rings.Resources, "nested namespaces", nestedNamespaces},
	{rings.Resources, "clocks", clocks},
	{rings.Resources, "network", networkHolds},
	{rings.Resources, "root", rootLayer},
	{rings.Resources, "tmpfs", tmpfsCaps},
	{rings.Resources, "bind mounts", bindMounts},
	{rings.Resources, "procfs", kernelFiles},
	{rings.Resources, "device nodes", deviceNodes},
	{rings.Resources, "propagation", propagation},
	{rings.Resources, "control groups", membership},
	{rings.Resources, "processes", pidsLimit},
	{rings.Resources, "memory", memoryLimit},
	{rings.Resources, "swap", swapLimit},
	{rings.Resources, "socket buffers", socketLimit},
	{rings.Resources, "processors", cpuLimit},
	{rings.Resources, "disk I/O", ioLimit},
	{rings.Resources, "rlimits", rlimits},
	{rings.Resources, "oom score", oomScore},

	{rings.Access, "user ids", userIDs},
	{rings.Access, "group ids", groupIDs},
	{rings.Access, "process credentials", idsInUse},
	{rings.Access, "capabilities", capabilities},
	{rings.Access, "no_new_privs", noNewPrivs},
	{rings.Access, "security module", label},
	{rings.Access, "masked paths", maskedPaths},
	{rings.Access, "read-only paths", readOnlyPaths},
	{rings.Access, "protected paths", protectedPaths},
	{rings.Access, "device rules", deviceRules},

	{rings.Kernel, "seccomp", seccompFilter},
	{rings.Kernel, "eBPF programs", programs},
}

// masked are the paths that must be hidden: those of every jail and those of
// its bundle.
func (d *demands) masked() []string {
	out := plan.MaskedPaths()
	if d.spec != nil && d.spec.Linux != nil {
		out = append(out, d.spec.Linux.MaskedPaths...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// readOnly are the paths that must not be written to.
func (d *demands) readOnly() []string {
	out := plan.ReadonlyPaths()
	if d.spec != nil && d.spec.Linux != nil {
		out = append(out, d.spec.Linux.ReadonlyPaths...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
