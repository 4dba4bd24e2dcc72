package check

import (
	"slices"

	"agentjail.dev/runtime/kernel/localports"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/rings"
)

// probes is all that is looked at, in the order of the output. A ring's probes
// stand together, the outermost ring first.
var probes = slices.Concat([]probe{
	{namePrivileges, rings.None, "privileges", always, privileges},
	{namePolicy, rings.None, "policy file", always, policyFile},
	{"passthrough", rings.None, "profiles", never, passthrough},
	{"delegate", rings.None, "delegate", always, delegateFound},
	{"delegate-fixes", rings.None, "delegate's fixes", never, delegateFixes},
	{"boundary", rings.None, "protections", never, boundary},
	{"sandbox", rings.None, "sandboxes", never, sandboxes},
	{"sandbox-rootless", rings.None, "without root", never, sandboxRootless},
	{"engine-fixes", rings.None, "engines' fixes", never, engineFixes},
	{"registered", rings.None, "engines", never, registered},
	{"builds", rings.None, "builds of images", never, imageBuilds},
	{"init-step", rings.None, "init step into a jail", always, lastStep},
	{"state", rings.None, "state directory", always, stateDir},
	{"views", rings.None, "views of directories", never, views},
	{"layers", rings.None, "layers on disk", func(p policy.Policy) bool { return p.Root.OnDisk() }, layers},

	{"namespaces", rings.Resources, "namespaces", always, plainNamespaces},
	{"cgroup-namespace", rings.Resources, "cgroup namespace", always, cgroupNamespace},
	{"time-namespace", rings.Resources, "time namespace", never, timeNamespace},
	{"mount-api", rings.Resources, "mount calls by file", always, mountAPI},
	{"tmpfs", rings.Resources, "capped tmpfs", always, cappedTmpfs},
	{"overlay", rings.Resources, "ephemeral layer", always, plainOverlay},
	{"overlay-idmapped", rings.Resources, "layer over mapped image", never, idmappedOverlay},
}, networkProbes(), []probe{
	{"network-rules", rings.Resources, "rules of the network", never, networkRules},
	{"network-ports", rings.Resources, "shares of ports", never, func(*env) answer { return networkPorts(localports.Can()) }},
	{"cgroup", rings.Resources, "control groups", never, hierarchy},
	{"cgroup-named", rings.Resources, "named hierarchies", always, namedHierarchies},
	{"cgroup-pids", rings.Resources, "limit on processes", never, limitOn("pids")},
	{"cgroup-memory", rings.Resources, "limit on memory", never, limitOn("memory")},
	{"cgroup-swap", rings.Resources, "limit on swap", never, limitOn("swap")},
	{"cgroup-cpu", rings.Resources, "limit on processors", never, limitOn("cpu")},
	{"cgroup-io", rings.Resources, "limit on disk I/O", never, limitOn("io")},
	{"socket-memory", rings.Resources, "socket buffers", never, socketMemory},
	{"neighbours", rings.Resources, "neighbours on bridges", never, neighbours},
	{"reserved-memory", rings.Resources, "reserved memory", never, reserved},
	{"orphans", rings.Resources, "closed connections", never, orphans},
	{"conntrack", rings.Resources, "tracked connections", never, tracking},
	{"open-files", rings.Resources, "open files", never, openFiles},
	{"core-handler", rings.Resources, "crashes", never, coreHandler},
	{"log-size", rings.Resources, "size of logs", never, logSize},

	{"user-namespace", rings.Access, "user namespace", always, userNamespace},
	{"id-pool", rings.Access, "host ids for jails", always, idPool},
	{"idmapped-mounts", rings.Access, "owner mapping of mounts", never, idmappedMounts},
	{"lsm", rings.Access, "AppArmor or SELinux", func(p policy.Policy) bool { return p.AppArmor.Required }, lsmConfines},
	{"delegate-label", rings.Access, "delegate's AppArmor", never, delegateLabels},
	{"landlock", rings.Access, "Landlock", func(p policy.Policy) bool { return p.NeedsLandlock() }, landlockABI},

	{"seccomp", rings.Kernel, "system call filter", always, seccompFilter},
	{"seccomp-profile", rings.Kernel, "filter's profile", always, seccompProfile},
	{"filter-space", rings.Kernel, "space for filters", never, filterSpace},
	{"kernel-fixes", rings.Kernel, "kernel's fixes", never, kernelFixes},
	{"ebpf", rings.Kernel, "eBPF programs", never, ebpfPrograms},
})
