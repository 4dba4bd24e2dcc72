package refusal

import (
	"github.com/opencontainers/runtime-spec/specs-go"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Policy has limits that a script can meet.
const Policy = `root.size = "8MiB"
root.inodes = 300
limits.memory = "64MiB"
limits.pids = 60
limits.cpus = 0.2
network.mode = "names"
network.allow = ["allowed.example:80,443,8443"]
network.deny = ["denied.example"]
`

const (
	explain = "agentjail explain"
	profile = "agentjail seccomp show"
)

// Why a row cannot be requested by some drivers.
const (
	noOption   = "it has no option for it"
	dropped    = "its client drops what it does not know (before 1.7)"
	privileged = "only --privileged requests it, with much else"
	sysctls    = "it passes on settings of namespaces alone"
	shared     = "only a mount of a directory that the host shares requests it"
	execs      = "its exec takes a command and nothing else"
	processes  = "its update has no limit of processes (Podman: before 5)"
	resize     = "its update resizes the pod, which tests/kubernetes tries"
	scores     = "the kubelet, or its containerd, decides that"
	plugins    = "its pods have devices of device plugins"
	ownGroup   = "its exec takes no control group"
)

// Rows are what the run requests, in this order, and is refused.
var Rows = []Row{
	// Who starts the jail requests more than a jail has.
	{Name: "a capability", Container: "securityContext: {capabilities: {add: [SYS_ADMIN]}}", Pod: func(p *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) {
		c.Linux.SecurityContext.Capabilities = &runtimeapi.Capability{AddCapabilities: []string{"SYS_ADMIN"}}
	}, Options: []string{"--cap-add=SYS_ADMIN"}, Bundle: func(s *specs.Spec) {
		for _, set := range []*[]string{&s.Process.Capabilities.Bounding, &s.Process.Capabilities.Effective, &s.Process.Capabilities.Permitted} {
			*set = append(*set, "CAP_SYS_ADMIN")
		}
	}, Kind: "privilege.denied", What: "process.capabilities", Rule: "hardening", Remedy: explain},
	{Name: "a device", Lacks: map[Driver]string{Kubernetes: plugins}, Pod: func(p *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) {
		c.Devices = append(c.Devices, &runtimeapi.Device{HostPath: "/dev/kmsg", ContainerPath: "/dev/kmsg", Permissions: "rwm"})
	}, Options: []string{"--device=/dev/kmsg"}, Bundle: func(s *specs.Spec) {
		s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/kmsg", Type: "c", Major: 1, Minor: 11}}
	}, Kind: "privilege.denied", What: "linux.devices", Rule: "hardening", Remedy: explain},
	{Name: "access to all devices", Options: []string{"--device-cgroup-rule=a *:* rwm"}, Lacks: map[Driver]string{CRI: privileged, Kubernetes: privileged}, Bundle: func(s *specs.Spec) {
		s.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}}
	}, Kind: "privilege.denied", What: "linux.resources.devices", Rule: "hardening", Remedy: explain},
	{Name: "the host's processes", Manifest: "hostPID: true", Pod: func(p *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) {
		p.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_NODE
	}, Options: []string{"--pid=host"}, Bundle: without(specs.PIDNamespace), Kind: "privilege.denied", What: "linux.namespaces[pid]", Rule: "hardening", Remedy: explain},
	{Name: "the host's IPC", Manifest: "hostIPC: true", Pod: func(p *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) {
		p.Linux.SecurityContext.NamespaceOptions.Ipc = runtimeapi.NamespaceMode_NODE
	}, Options: []string{"--ipc=host"}, Bundle: without(specs.IPCNamespace), Kind: "privilege.denied", What: "linux.namespaces[ipc]", Rule: "hardening", Remedy: explain},
	{Name: "the host's name", Manifest: "hostNetwork: true", Pod: func(p *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) {
		p.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	}, Options: []string{"--uts=host"}, Bundle: without(specs.UTSNamespace), Kind: "privilege.denied", What: "linux.namespaces[uts]", Rule: "hardening", Remedy: explain},
	{Name: "the host's network", Manifest: "hostNetwork: true", Pod: func(p *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) {
		p.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	}, Options: []string{"--network=host"}, Bundle: without(specs.NetworkNamespace), Kind: "privilege.denied", What: "linux.namespaces[network]", Rule: "hardening", Remedy: explain},
	{Name: "no masked paths", Podman: []string{"--security-opt=unmask=ALL"}, Lacks: map[Driver]string{CRI: privileged, Kubernetes: privileged}, Options: []string{"--security-opt=systempaths=unconfined"}, Bundle: func(s *specs.Spec) { s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = nil, nil }, Kind: "privilege.denied", What: "linux.maskedPaths", Rule: "hardening", Remedy: explain},
	{Name: "a setting of the host's kernel", Lacks: map[Driver]string{Docker: sysctls, Podman: sysctls, Kubernetes: sysctls}, Pod: func(p *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) {
		p.Linux.Sysctls = map[string]string{"kernel.pid_max": "9999"}
	}, Bundle: func(s *specs.Spec) { s.Linux.Sysctl = map[string]string{"kernel.pid_max": "9999"} }, Kind: "privilege.denied", What: "linux.sysctl[kernel.pid_max]", Rule: "hardening", Remedy: explain},
	{Name: "to outlive the host's programs", Lacks: map[Driver]string{CRI: scores, Kubernetes: scores}, Pod: func(p *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) {
		c.Linux.Resources.OomScoreAdj = -900
	}, Options: []string{"--oom-score-adj=-900"}, Bundle: func(s *specs.Spec) { n := -900; s.Process.OOMScoreAdj = &n }, Kind: "privilege.denied", What: "process.oomScoreAdj", Rule: "hardening", Remedy: explain},
	{Name: "real-time priority", Lacks: map[Driver]string{Docker: noOption, Podman: noOption, Containerd: dropped, CRI: noOption, Kubernetes: noOption}, Bundle: func(s *specs.Spec) {
		s.Process.Scheduler = &specs.Scheduler{Policy: specs.SchedFIFO, Priority: 1}
	}, Kind: "privilege.denied", What: "process.scheduler", Rule: "hardening", Remedy: explain},
	{Name: "a writable /sys", Lacks: map[Driver]string{Docker: privileged, Podman: privileged, CRI: privileged, Kubernetes: privileged}, Bundle: func(s *specs.Spec) {
		for i := range s.Mounts {
			if s.Mounts[i].Destination == "/sys" {
				s.Mounts[i].Options = []string{"nosuid", "noexec", "nodev"}
			}
		}
	}, Kind: "privilege.denied", What: "mounts[/sys]", Rule: "hardening", Remedy: explain},
	{Name: "mounts that travel", Lacks: map[Driver]string{Docker: shared, Podman: shared, CRI: shared, Kubernetes: shared}, Bundle: func(s *specs.Spec) { s.Linux.RootfsPropagation = "shared" }, Kind: "privilege.denied", What: "linux.rootfsPropagation", Rule: "hardening", Remedy: explain},

	// The network.
	{Name: "a name that no rule allows", Sh: "nslookup refused.example", Kind: "name.refused", What: "refused.example", Rule: "network.allow", Remedy: `network.allow`},
	{Name: "a name that is denied", Sh: "nslookup denied.example", Kind: "name.refused", What: "denied.example", Rule: "network.allow", Remedy: "network"},
	{Name: "a port that is not allowed", Sh: "nc -w 5 allowed.example 25 </dev/null", Kind: "connect.refused", What: "allowed.example:25", Rule: "network.allow", Remedy: "network.allow"},
	{Name: "an address for which no name was looked up", Sh: "nc -w 5 127.99.1.1 443 </dev/null", Kind: "connect.refused", What: "127.99.1.1", Rule: "network.allow", Remedy: "look the name up first"},
	{Name: "something that is not TLS", Sh: "echo hello | nc -w 5 allowed.example 443", Kind: "connect.refused", What: "allowed.example:443", Rule: "allowed.example", Remedy: "is allowed already"},
	{Name: "something that is not HTTP", Sh: "printf 'HELLO\\r\\n\\r\\n' | nc -w 5 allowed.example 80", Kind: "connect.refused", What: "allowed.example:80", Rule: "allowed.example", Remedy: "is allowed already"},

	// System calls that are in no profile, or in another one.
	{Name: "io_uring", Probe: "io_uring_setup", Kind: "syscall.refused", What: "io_uring_setup", Rule: "seccomp.profile", Remedy: profile},
	{Name: "bpf", Probe: "bpf", Kind: "syscall.refused", What: "bpf", Rule: "seccomp.profile", Remedy: profile},
	{Name: "perf", Probe: "perf_event_open", Kind: "syscall.refused", What: "perf_event_open", Rule: "seccomp.profile", Remedy: profile},
	{Name: "userfaultfd", Probe: "userfaultfd", Kind: "syscall.refused", What: "userfaultfd", Rule: "seccomp.profile", Remedy: profile},
	{Name: "keyrings", Probe: "keyctl", Kind: "syscall.refused", What: "keyctl", Rule: "seccomp.profile", Remedy: profile},
	{Name: "a module", Probe: "init_module", Kind: "syscall.refused", What: "init_module", Rule: "seccomp.profile", Remedy: profile},
	{Name: "another kernel", Probe: "kexec_load", Kind: "syscall.refused", What: "kexec_load", Rule: "seccomp.profile", Remedy: profile},
	{Name: "a mount", Probe: "mount_tmpfs", Kind: "syscall.refused", What: "mount(", Rule: "seccomp.profile", Remedy: profile},
	{Name: "another root", Probe: "pivot_root", Kind: "syscall.refused", What: "pivot_root", Rule: "seccomp.profile", Remedy: profile},
	{Name: "a user namespace", Probe: "unshare_user", Kind: "syscall.refused", What: "unshare(0x10000000", Rule: "seccomp.profile", Remedy: profile},
	{Name: "others' files", Probe: "fanotify_init", Kind: "syscall.refused", What: "fanotify_init", Rule: "seccomp.profile", Remedy: profile},
	{Name: "a vsock", Probe: "socket_vsock", Kind: "syscall.refused", What: "socket(0x28", Rule: "seccomp.profile", Remedy: profile},
	{Name: "a raw socket", Probe: "socket_raw4", Kind: "syscall.refused", What: "socket(0x2, 0x3, 0x1", Rule: "seccomp.profile", Remedy: profile},
	{Name: "tracing", Probe: "ptrace_parent", Kind: "syscall.refused", What: "ptrace", Rule: "seccomp.profile", Remedy: profile},
	{Name: "another's memory", Probe: "process_vm_readv", Kind: "syscall.refused", What: "process_vm_readv", Rule: "seccomp.profile", Remedy: profile},
	{Name: "a file by its handle", Probe: "open_by_handle_at", Kind: "syscall.refused", What: "open_by_handle_at", Rule: "seccomp.profile", Remedy: profile},
	{Name: "a block device", Probe: "mknod_block", Kind: "syscall.refused", What: "mknodat", Rule: "seccomp.profile", Remedy: profile},
	{Name: "the clock", Probe: "settimeofday", Kind: "syscall.refused", What: "settime", Rule: "seccomp.profile", Remedy: profile},
	{Name: "the kernel's log", Probe: "syslog", Kind: "syscall.refused", What: "syslog", Rule: "seccomp.profile", Remedy: profile},

	// Limits.
	{Name: "all the layer's files", Sh: "mkdir /files; cd /files; i=0; while [ $i -lt 500 ] && : >f$i; do i=$((i+1)); done", Kind: "limit.inodes", Rule: "root.inodes", Remedy: "root.inodes"},
	{Name: "all the layer", Sh: "dd if=/dev/zero of=/files/f1 bs=64k", Kind: "limit.layer", Rule: "root.size", Remedy: "root.size"},
	{Name: "more memory than there is", Sh: "dd if=/dev/zero of=/dev/null bs=200M count=1", Kind: "limit.oom", Rule: "limits.memory", Remedy: "limits.memory"},
	{Name: "more processor time", Again: true, Sh: "timeout 2 sh -c 'while :; do :; done'", Kind: "limit.cpu", Rule: "limits.cpus", Remedy: "limits.cpus"},

	// Who uses the engine requests more afterwards.
	{Name: "a user that the jail does not have", Lacks: map[Driver]string{CRI: execs, Kubernetes: execs}, Options: []string{"--user=70000"}, Exec: []string{"--user", "70000"}, Kind: "exec.refused", Rule: "process.user", Remedy: "userns.ids = [\"70000\"]"},
	{Name: "a directory that leads out", Lacks: map[Driver]string{CRI: execs, Kubernetes: execs}, Options: []string{"--workdir=/proc/self/fd/7"}, Exec: []string{"--cwd", "/proc/self/fd/7"}, Kind: "exec.refused", Rule: "process.cwd", Remedy: "see the reason"},
	{Name: "a control group elsewhere", Lacks: map[Driver]string{Docker: ownGroup, Podman: ownGroup, Containerd: ownGroup, CRI: ownGroup, Kubernetes: ownGroup}, Exec: []string{"--cgroup", "elsewhere"}, Kind: "exec.refused", What: "exec --cgroup", Rule: "exec", Remedy: "see the reason"},
	{Name: "more processes than policy has", Pids: 100_000, Lacks: map[Driver]string{Podman: processes, CRI: processes, Kubernetes: processes}, Kind: "limits.refused", What: "linux.resources.pids.limit", Rule: "limits", Remedy: "policy: limits"},
	{Name: "more memory than policy has", Memory: 1 << 30, Lacks: map[Driver]string{Kubernetes: resize}, Kind: "limits.refused", What: "linux.resources.memory.limit", Rule: "limits", Remedy: "policy: limits"},
	// The last: it leaves no process for others.
	{Name: "too many processes", Stays: true, Sh: "i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; sleep 1000", Kind: "limit.pids", Rule: "limits.pids", Remedy: "limits.pids"},
}

// without takes a namespace out of the configuration: the host's is requested.
func without(kind specs.LinuxNamespaceType) func(*specs.Spec) {
	return func(s *specs.Spec) {
		var left []specs.LinuxNamespace
		for _, n := range s.Linux.Namespaces {
			if n.Type != kind {
				left = append(left, n)
			}
		}
		s.Linux.Namespaces = left
	}
}
