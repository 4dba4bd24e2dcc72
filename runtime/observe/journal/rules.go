package journal

// rules are what decides refusals whose source names no rule of its own, with {name} and the like as in remedies: the key of the policy, the
// limit of the kernel, or the wall.
var rules = map[string]string{
	"privilege.denied": "hardening: {target}", "limits.refused": "limits", "exec.refused": "hardening",
	"name.refused": "network.allow", "connect.refused": "network.allow", "publish.refused": "network.publish", "credential.refused": "credentials.{credential}",
	"syscall.refused": "seccomp.profile", "syscall.killed": "seccomp.on_violation",
	"module.refused": "eBPF: {target}", "ring0.passed": "eBPF: {target}", "ptrace.refused": "eBPF: {target}",
	"exec.blocked": "ebpf.block", "trace.blocked": "ebpf.block", "connect.blocked": "ebpf.block", "bind.blocked": "ebpf.block",
	"landlock.denied": "the jail's Landlock domain", "apparmor.denied": "apparmor.profile", "selinux.denied": "process.selinuxLabel",
	"limit.oom": "limits.memory", "limit.memory": "limits.memory", "limit.high": "memory.high", "limit.pids": "limits.pids", "limit.cpu": "limits.cpus",
	"limit.layer": "root.size", "limit.inodes": "root.inodes",
}

// Decided is the rule that decided a refusal: the event's own, or what its kind is decided by. It is "" for what nobody decided.
func (e *Event) Decided() string {
	if e.Rule != "" {
		return e.Rule
	}
	return e.fill(rules[e.Kind])
}
