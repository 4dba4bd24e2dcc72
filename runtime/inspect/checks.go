package inspect

import (
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/rings"
)

// A check holds one protection against the jail's policy. It is a function of what was seen: it
// does not query the kernel.
type check struct {
	ring rings.Ring
	name string
	run  func(*demands, *seen) outcome
	// sandbox reports that only jails in a sandbox have it.
	sandbox bool
}

// checks are all checks of a jail, in the order of the output: the outermost ring first.
var checks = []check{
	{ring: rings.Resources, name: "namespaces", run: namespaces},
	{ring: rings.Resources, name: "namespace owner", run: namespaceOwner},
	{ring: rings.Resources, name: "resource accounting user", run: countedFor},
	{ring: rings.Resources, name: "nested namespaces", run: nestedNamespaces},
	{ring: rings.Resources, name: "clocks", run: clocks},
	{ring: rings.Resources, name: "network", run: networkHolds},
	{ring: rings.Resources, name: "root", run: rootLayer},
	{ring: rings.Resources, name: "tmpfs", run: tmpfsCaps},
	{ring: rings.Resources, name: "bind mounts", run: bindMounts},
	{ring: rings.Resources, name: "workspace", run: workspaceViews},
	{ring: rings.Resources, name: "procfs", run: kernelFiles},
	{ring: rings.Resources, name: "device nodes", run: deviceNodes},
	{ring: rings.Resources, name: "propagation", run: propagation},
	{ring: rings.Resources, name: "control groups", run: membership},
	{ring: rings.Resources, name: "processes", run: pidsLimit},
	{ring: rings.Resources, name: "memory", run: memoryLimit},
	{ring: rings.Resources, name: "swap", run: swapLimit},
	{ring: rings.Resources, name: "socket buffers", run: socketLimit},
	{ring: rings.Resources, name: "processors", run: cpuLimit},
	{ring: rings.Resources, name: "disk I/O", run: ioLimit},
	{ring: rings.Resources, name: "rlimits", run: rlimits},
	{ring: rings.Resources, name: "oom score", run: oomScore},

	{ring: rings.Access, name: "user ids", run: userIDs},
	{ring: rings.Access, name: "group ids", run: groupIDs},
	{ring: rings.Access, name: "process credentials", run: idsInUse},
	{ring: rings.Access, name: "capabilities", run: capabilities},
	{ring: rings.Access, name: "no_new_privs", run: noNewPrivs},
	{ring: rings.Access, name: "security module", run: label},
	{ring: rings.Access, name: "masked paths", run: maskedPaths},
	{ring: rings.Access, name: "read-only paths", run: readOnlyPaths},
	{ring: rings.Access, name: "protected paths", run: protectedPaths},
	{ring: rings.Access, name: "device rules", run: deviceRules},

	{ring: rings.Kernel, name: "seccomp", run: seccompFilter},
	{ring: rings.Kernel, name: "sandbox filter", run: sandboxFilter, sandbox: true},
	{ring: rings.Kernel, name: "eBPF programs", run: programs},
}

// Protections are the names of those that jails of a boundary have, in the order of the output.
func Protections(sandbox bool) (out []string) {
	for _, c := range checks {
		if sandbox || !c.sandbox {
			out = append(out, c.name)
		}
	}
	return out
}

// masked are the paths that must be hidden.
func (d *demands) masked() []string {
	return d.paths(plan.MaskedPaths(), func(l *specs.Linux) []string { return l.MaskedPaths })
}

// readOnly are the paths that must not be written to.
func (d *demands) readOnly() []string {
	return d.paths(plan.ReadonlyPaths(), func(l *specs.Linux) []string { return l.ReadonlyPaths })
}

// paths adds the paths of the bundle to those of every jail.
func (d *demands) paths(all []string, bundle func(*specs.Linux) []string) []string {
	if d.spec != nil && d.spec.Linux != nil {
		all = append(all, bundle(d.spec.Linux)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
