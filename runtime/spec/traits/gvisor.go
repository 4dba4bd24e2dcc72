package traits

// NobodyMap is the map of ids of a sandbox's process that opens no files itself: it needs no id but
// the overflow user's, and its helper has the jail's (proc_pid_uid_map(5)).
const NobodyMap = "65534 65534 1"

// pidsRoom is what a sandbox takes of the limit on processes for itself, beyond one process of the
// host's for each of the jail's: the sentry's threads, its stub processes and the gofer. At the
// limit the sentry dies, and the jail with it.
const pidsRoom = 256

// Pids returns the limit on the host's processes for a jail that may have n; 0 and less are no
// limit.
func (t Traits) Pids(n int64) int64 {
	if t.Sandbox == "" || n <= 0 {
		return n
	}
	return 2*n + pidsRoom
}

// gvisor is the boundary of gVisor's sandbox. The sentry answers the jail's system calls; the
// host's kernel holds the sentry, the process that it checks. A protection of the jail's own
// processes is the sentry's work, and cannot be seen from the host.
var gvisor = Boundary{
	Place: Guest,
	Other: map[string]Place{
		"namespaces": Host, "namespace owner": Host, "nested namespaces": Host, "network": Host, "control groups": Host,
		"processes": Host, "memory": Host, "swap": Host, "socket buffers": Host, "processors": Host, "disk I/O": Host,
		"oom score": Host,
		"user ids":  Host, "group ids": Host, "process credentials": Host, "no_new_privs": Host, "sandbox filter": Host,
		"protected paths":          Host,
		"resource accounting user": Void, "security module": Void, "device rules": Void, "eBPF programs": Void,
	},
	Instead: map[string]string{
		"resource accounting user": "counts by user are root's; the sentry's own filter reaches little that is counted so",
		"security module":          "the sentry's own filter and ids",
		"device rules":             "devices are the sentry's own, and reach none of the host's",
		"eBPF programs":            "they see the sentry alone",
		"processes":                "the limit counts the sentry's processes, too, and has room for them",
	},
}
