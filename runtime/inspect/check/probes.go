package check

import (
	"slices"

	"agentjail.dev/runtime/kernel/localports"
	"agentjail.dev/runtime/spec/policy"
)

// probes is all that is looked at, in the order of the output. A ring's probes
// stand together, the outermost ring first.
var probes = slices.Concat([]probe{
	{namePrivileges, ringAll, "privileges", always, privileges},
	{"policy", ringAll, "policy file", always, policyFile},
	{"passthrough", ringAll, "profiles", never, passthrough},
	{"delegate", ringAll, "delegate", always, delegateFound},
	{"delegate-fixes", ringAll, "delegate's fixes", never, delegateFixes},
	{"boundary", ringAll, "protections", never, boundary},
	{"engine-fixes", ringAll, "engines' fixes", never, engineFixes},
	{"registered", ringAll, "engines", never, registered},
	{"builds", ringAll, "builds of images", never, imageBuilds},
	{"init-step", ringAll, "init step into a jail", always, lastStep},
	{"state", ringAll, "state directory", always, stateDir},

	{"namespaces", ringResources, "namespaces", always, plainNamespaces},
	{"cgroup-namespace", ringResources, "cgroup namespace", always, cgroupNamespace},
	{"time-namespace", ringResources, "time namespace", never, timeNamespace},
	{"mount-api", ringResources, "mount calls by file", always, mountAPI},
	{"tmpfs", ringResources, "capped tmpfs", always, cappedTmpfs},
	{"overlay", ringResources, "ephemeral layer", always, plainOverlay},
	{"overlay-idmapped", ringResources, "layer over mapped image", never, idmappedOverlay},
}, networkProbes(), []probe{
	{"network-rules", ringResources, "rules of the network", never, networkRules},
	{"network-ports", ringResources, "shares of ports", never, func(*env) answer { return networkPorts(localports.Can()) }},
	{"cgroup", ringResources, "control groups", never, hierarchy},
	{"cgroup-named", ringResources, "named hierarchies", always, namedHierarchies},
	{"cgroup-pids", ringResources, "limit on processes", never, limitOn("pids")},
	{"cgroup-memory", ringResources, "limit on memory", never, limitOn("memory")},
	{"cgroup-swap", ringResources, "limit on swap", never, limitOn("swap")},
	{"cgroup-cpu", ringResources, "limit on processors", never, limitOn("cpu")},
	{"cgroup-io", ringResources, "limit on disk I/O", never, limitOn("io")},
	{"socket-memory", ringResources, "socket buffers", never, socketMemory},
	{"neighbours", ringResources, "neighbours on bridges", never, neighbours},
	{"conntrack", ringResources, "tracked connections", never, tracking},
	{"open-files", ringResources, "open files", never, openFiles},
	{"core-handler", ringResources, "crashes", never, coreHandler},
	{"log-size", ringResources, "size of logs", never, logSize},

	{"user-namespace", ringAccess, "user namespace", always, userNamespace},
	{"id-pool", ringAccess, "host ids for jails", always, idPool},
	{"idmapped-mounts", ringAccess, "owner mapping of mounts", never, idmappedMounts},
	{"lsm", ringAccess, "AppArmor or SELinux", func(p policy.Policy) bool { return p.AppArmor.Required }, lsmConfines},
	{"delegate-label", ringAccess, "delegate's AppArmor", never, delegateLabels},
	{"landlock", ringAccess, "Landlock", func(p policy.Policy) bool { return p.NeedsLandlock() }, landlockABI},

	{"seccomp", ringKernel, "system call filter", always, seccompFilter},
	{"seccomp-profile", ringKernel, "filter's profile", always, seccompProfile},
	{"filter-space", ringKernel, "space for filters", never, filterSpace},
	{"kernel-fixes", ringKernel, "kernel's fixes", never, kernelFixes},
	{"ebpf", ringKernel, "eBPF programs", never, ebpfPrograms},
})
