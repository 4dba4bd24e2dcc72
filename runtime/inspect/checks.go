package inspect

import (
	"slices"

	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/report"
)

// A check holds one protection against the jail's policy. It is a function of what was seen: it
// does not query the kernel.
type check struct {
	ring report.Ring
	name string
	run  func(*demands, *seen) outcome
}

// checks are all checks of a jail, in the order of the output: the outermost ring first.
var checks = []check{
	{report.Resources, "namespaces", namespaces},
	{report.Resources, "namespace owner", namespaceOwner},
	{report.Resources, "resource accounting user", countedFor},
	{report.Resources, "nested namespaces", nestedNamespaces},
	{report.Resources, "clocks", clocks},
	{report.Resources, "network", networkHolds},
	{report.Resources, "root", rootLayer},
	{report.Resources, "tmpfs", tmpfsCaps},
	{report.Resources, "bind mounts", bindMounts},
	{report.Resources, "procfs", kernelFiles},
	{report.Resources, "device nodes", deviceNodes},
	{report.Resources, "propagation", propagation},
	{report.Resources, "control groups", membership},
	{report.Resources, "processes", pidsLimit},
	{report.Resources, "memory", memoryLimit},
	{report.Resources, "swap", swapLimit},
	{report.Resources, "socket buffers", socketLimit},
	{report.Resources, "processors", cpuLimit},
	{report.Resources, "disk I/O", ioLimit},
	{report.Resources, "rlimits", rlimits},
	{report.Resources, "oom score", oomScore},

	{report.Access, "user ids", userIDs},
	{report.Access, "group ids", groupIDs},
	{report.Access, "process credentials", idsInUse},
	{report.Access, "capabilities", capabilities},
	{report.Access, "no_new_privs", noNewPrivs},
	{report.Access, "security module", label},
	{report.Access, "masked paths", maskedPaths},
	{report.Access, "read-only paths", readOnlyPaths},
	{report.Access, "protected paths", protectedPaths},
	{report.Access, "device rules", deviceRules},

	{report.Kernel, "seccomp", seccompFilter},
	{report.Kernel, "eBPF programs", programs},
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
