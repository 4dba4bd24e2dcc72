package apparmor

import (
	"strings"

	"agentjail.dev/runtime/spec/policy"
)

// The profile as data. Everything that no rule allows is denied and logged; a "deny" rule wins over
// every allowing one and is not logged, so it also keeps the log free of what is refused all the
// time (apparmor.d(5)).
//
// Each protection stands also where other rings hold the same line (masked paths, dropped
// capabilities, seccomp): the profile is written as if they were not there.

// rule is one line of the profile.
type rule struct {
	text string // without the final comma
	why  string
}

// section is a group of rules under one comment.
type section struct {
	title string
	rules []rule
	abi   string // only for this AppArmor feature ABI or later; "" for all
}

// fileRule denies permissions on a path pattern (AARE, apparmor.d(5), "Globbing"). Paths are those
// of the jail's mount namespace.
type fileRule struct {
	pattern string
	perms   string
	why     string
}

// Permissions of a denied path: changed, or even looked at. r read, w write (with append, create,
// rename and delete), k lock, l link, m map executable, x execute.
const (
	noChange = "wklmx"
	noAccess = "rwklmx"
)

// fileRules are the exceptions to "file,". In /proc, a process's own directory begins with a digit
// from 1 to 9 (self and thread-self are links to it), all else belongs to the kernel.
var fileRules = []fileRule{
	{"/proc/[^1-9]**", noChange, "kernel tunables, sysrq, irq, bus, fs"},
	{"/proc/[1-9]*/{uid_map,gid_map,projid_map,setgroups}", noChange, "ids of nested user namespaces"},
	{"/proc/[1-9]*/attr/**", noChange, "security labels"},
	{"/proc/[1-9]*/task/*/attr/**", noChange, "security labels of threads"},
	{"/proc/[1-9]*/{loginuid,sessionid}", noChange, "audit identity"},
	{"/proc/{kcore,kmem,mem,kmsg,sysrq-trigger}", noAccess, "kernel memory, log and console"},
	{"/proc/{kpagecount,kpageflags,kpagecgroup}", noAccess, "physical memory layout"},
	{"/proc/{keys,key-users,timer_list,timer_stats,latency_stats,sched_debug}", noAccess, "what others on the host do"},
	// No mount covers what every process has.
	{"/proc/[1-9]*/timens_offsets", noAccess, "how long the host is up"},
	{"/proc/[1-9]*/{,task/*/}net/softnet_stat", noAccess, "packets of the host by processor"},
	{"/proc/{acpi,asound,scsi}/**", noAccess, "the host's hardware"},
	{"/sys/**", noChange, "kernel objects, control groups"},
	{"/sys/firmware/**", noAccess, "firmware and its variables"},
	{"/sys/kernel/{security,debug,tracing}/**", noAccess, "security modules, debugging, tracing"},
	{"/sys/fs/{bpf,pstore,selinux}/**", noAccess, "pinned programs, crash logs, policy"},
	{"/sys/devices/virtual/{dmi,powercap}/**", noAccess, "machine identity, power side channels"},
	{"/dev/{mem,kmem,port,kmsg}", noAccess, "kernel memory and log"},
}

// sections returns the profile's rules for the given parameters.
func sections(p Params) []section {
	self := p.Name
	signals := []rule{{"signal (send,receive) peer=" + self, "among the jail's own processes"}}
	for _, peer := range p.peers() {
		signals = append(signals, rule{"signal (receive) peer=" + peer, ""})
	}
	files := []rule{{"file", ""}}
	for _, f := range fileRules {
		files = append(files, rule{"deny " + f.pattern + " " + f.perms, f.why})
	}
	return []section{
		{title: "Files: the jail's root is its own; what the kernel shows in it is not.", rules: files},
		capabilities(p.Name),
		{title: "The mounts are those the jail was started with.", rules: []rule{
			{"deny mount", ""},
			{"deny remount", ""},
			{"deny umount", ""},
			{"deny pivot_root", ""},
		}},
		{title: "Sockets: streams and datagrams; netlink for the list of interfaces.", rules: []rule{
			{"network unix", ""},
			{"unix", ""},
			{"network inet stream", ""},
			{"network inet dgram", ""},
			{"network inet6 stream", ""},
			{"network inet6 dgram", ""},
			{"network netlink raw", "getifaddrs(3)"},
			{"network netlink dgram", ""},
			{"deny network inet raw", ""},
			{"deny network inet6 raw", ""},
			{"deny network packet", ""},
		}},
		{title: "Signals from the host, so that the jail can be stopped.", rules: signals},
		{title: "Tracing only what is in a jail.", rules: []rule{{"ptrace (trace,read,tracedby,readby) peer=" + self, ""}}},
		{title: "No nested user namespaces (Ubuntu's restriction holds inside, too), no io_uring; message queues are the jail's own.", abi: "4.0", rules: []rule{
			{"deny userns", ""},
			{"deny io_uring", ""},
			{"mqueue", ""},
		}},
	}
}

// capabilities are the rules for the jail's own root. "deny capability" would win over every
// allowing rule.
func capabilities(profile string) section {
	if profile != policy.ServiceAppArmor {
		return section{title: "No capability, not even over the jail's own user namespace.", rules: []rule{{"deny capability", ""}}}
	}
	return section{title: "Capabilities over the jail's own ids.", rules: []rule{
		{"capability " + strings.ToLower(strings.Join(policy.Grantable(), " ")), ""},
	}}
}
