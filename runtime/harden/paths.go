package harden

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/report"
)

// maskedPaths are hidden in every jail: those of moby (oci/defaults.go),
// containerd (pkg/oci), CRI-O and Podman (containers/common), and what else
// tells of the host or steers its kernel.
var maskedPaths = []string{
	"/proc/acpi",
	"/proc/asound",
	"/proc/bus",
	"/proc/config.gz",
	"/proc/dynamic_debug",
	"/proc/fs",
	"/proc/interrupts",
	"/proc/iomem",
	"/proc/ioports",
	"/proc/irq",
	"/proc/kallsyms",
	"/proc/kcore",
	"/proc/keys",
	"/proc/key-users",
	"/proc/kmsg",
	"/proc/kpagecgroup",
	"/proc/kpagecount",
	"/proc/kpageflags",
	"/proc/latency_stats",
	"/proc/modules",
	"/proc/pagetypeinfo",
	"/proc/sched_debug",
	"/proc/schedstat",
	"/proc/scsi",
	"/proc/slabinfo",
	"/proc/sysrq-trigger",
	"/proc/timer_list",
	"/proc/timer_stats",
	"/proc/vmallocinfo",
	"/sys/dev/block",
	"/sys/devices/virtual/dmi",
	"/sys/devices/virtual/powercap",
	"/sys/firmware",
	"/sys/fs/selinux",
	"/sys/kernel",
	"/sys/module",
}

// readonlyPaths can be read but not written, by anyone in the jail.
var readonlyPaths = []string{
	"/proc/sys",
	"/proc/sysvipc",
	"/proc/tty",
	"/proc/mtrr",
}

// paths makes the masked and read-only paths a superset of the incoming ones.
// A privileged container comes with none.
func paths(p *pass) {
	l := p.spec.Linux
	if len(l.MaskedPaths) == 0 && len(l.ReadonlyPaths) == 0 {
		p.lost(report.Access, "linux.maskedPaths", "none", "all", "kernel tunables and the host's secrets in /proc and /sys stay out of reach")
	}
	l.MaskedPaths = union(p, "linux.maskedPaths", l.MaskedPaths, maskedPaths)
	l.ReadonlyPaths = union(p, "linux.readonlyPaths", l.ReadonlyPaths, readonlyPaths)
	switch l.RootfsPropagation {
	case "", "private", "rprivate", "slave", "rslave":
	default:
		p.lost(report.Resources, "linux.rootfsPropagation", l.RootfsPropagation, "rprivate", "a jail's mounts do not travel to the host")
	}
	l.RootfsPropagation = "rprivate"
}

func union(p *pass, field string, have, want []string) []string {
	out := slices.Clone(have)
	var added int
	for _, w := range want {
		if !slices.Contains(out, w) {
			out = append(out, w)
			added++
		}
	}
	if added > 0 && len(have) > 0 {
		p.change(report.Access, report.Set, field, fmt.Sprintf("%d paths", len(have)), fmt.Sprintf("%d paths", len(out)), "paths that tell of the host or steer its kernel")
	}
	return out
}

// hooks are programs of the host that the bundle names; some run with the
// image's environment (CVE-2025-23266). A jail runs none.
func hooks(p *pass) {
	h := p.spec.Hooks
	if h == nil {
		return
	}
	for _, k := range []struct {
		name  string
		hooks []specs.Hook
	}{
		{"prestart", h.Prestart}, {"createRuntime", h.CreateRuntime}, {"createContainer", h.CreateContainer}, //nolint:staticcheck // prestart is what Docker uses
		{"startContainer", h.StartContainer}, {"poststart", h.Poststart}, {"poststop", h.Poststop},
	} {
		for _, hk := range k.hooks {
			why := "a jail runs no program of the host"
			if strings.Contains(strings.Join(hk.Args, " "), "libnetwork-setkey") {
				why = "this would put the engine's network into the jail"
			}
			p.change(report.Resources, report.Dropped, "hooks."+k.name, short(hk.Path), "", why)
		}
	}
	p.spec.Hooks = nil
}

// droppedAnnotations steer a delegate or an engine: crun's can switch its
// filter off (run.oci.seccomp_bpf_data), systemd's set properties of the
// control group past our limits, and CRIU's are for restore.
var droppedAnnotations = []string{
	"run.oci.", "org.criu.", "org.systemd.property.", "io.kubernetes.cri-o.umask", "io.kubernetes.cri-o.Devices",
	"io.kubernetes.cri-o.UnifiedCgroup", "io.kubernetes.cri-o.LinkLogs", "module.wasm.image/", "com.github.containers.",
}

func annotations(p *pass) {
	names := make([]string, 0, len(p.spec.Annotations))
	for k := range p.spec.Annotations {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		for _, d := range droppedAnnotations {
			if strings.HasPrefix(strings.ToLower(k), strings.ToLower(d)) {
				p.change(report.Access, report.Dropped, "annotations["+short(k)+"]", short(p.spec.Annotations[k]), "", "it steers the delegate")
				delete(p.spec.Annotations, k)
				break
			}
		}
	}
}

// Sysctls that belong to one of the jail's own namespaces, as the OCI
// specification lists them (config-linux.md, Sysctl). net.* is per network
// namespace as a whole.
var ownSysctls = []string{
	"kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem", "kernel.shmall", "kernel.shmmax",
	"kernel.shmmni", "kernel.shm_rmid_forced", "kernel.hostname", "kernel.domainname",
}

func sysctls(p *pass) {
	names := make([]string, 0, len(p.spec.Linux.Sysctl))
	for k := range p.spec.Linux.Sysctl {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		dotted := strings.ReplaceAll(k, "/", ".")
		drop := func(why string) {
			p.lost(report.Access, "linux.sysctl["+short(k)+"]", short(p.spec.Linux.Sysctl[k]), "", why)
			delete(p.spec.Linux.Sysctl, k)
		}
		switch {
		case strings.Contains(k, ".."):
			drop("not the name of a kernel setting")
		case dotted == "net.ipv4.ping_group_range":
			// Engines set it to all groups, more than a user namespace has:
			// EINVAL. A jail may open no such sockets anyway.
			p.change(report.Access, report.Dropped, "linux.sysctl["+k+"]", p.spec.Linux.Sysctl[k], "", "a jail opens no ICMP sockets")
			delete(p.spec.Linux.Sysctl, k)
		case strings.HasPrefix(dotted, "net.") && !p.plan.OwnNetwork:
			drop("the network namespace is another jail's")
		case strings.HasPrefix(dotted, "net."), strings.HasPrefix(dotted, "fs.mqueue."), slices.Contains(ownSysctls, dotted):
		default:
			drop("it is the host's, not a namespace's of the jail")
		}
	}
}
