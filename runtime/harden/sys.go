package harden

import (
	"path"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/report"
)

// cpus is what a jail has of the kernel's device tree: the processors, which C
// libraries count (sysconf(3)) and numerical libraries look into.
const cpus = "/sys/devices/system/cpu"

// emptySys puts a small empty tmpfs in place of sysfs. sysfs shows every device
// and driver of the host to whoever mounts it, and has thousands of handlers
// that a jail has no use for; a list of paths to mask would never be complete.
// What programs do read there is mounted into it: the control groups by the
// spec itself, the processors by [processors].
func emptySys(p *pass, m *specs.Mount, opts []string) []string {
	saidReadOnly(p, m, opts)
	if m.Type == "sysfs" {
		p.change(report.Access, report.Set, mountField(m), "sysfs", "empty but for "+cpus, "the host's devices and drivers are not the jail's to see")
	}
	m.Type, m.Source = "tmpfs", "tmpfs"
	return append(opts, "mode=755", "size=65536", "nr_inodes=64")
}

// processors mounts the processors into an empty /sys.
func processors(p *pass) {
	sys, have := false, false
	for i := range p.spec.Mounts {
		m := &p.spec.Mounts[i]
		sys = sys || path.Clean(m.Destination) == "/sys"
		have = have || isCPUs(m)
	}
	if sys && !have {
		p.spec.Mounts = append(p.spec.Mounts, cpuMount())
	}
}

func cpuMount() specs.Mount {
	return specs.Mount{Destination: cpus, Type: "bind", Source: cpus, Options: []string{"bind", "ro", "nosuid", "noexec", "nodev", "rprivate"}}
}

func isCPUs(m *specs.Mount) bool {
	return IsBind(*m) && path.Clean(m.Destination) == cpus && path.Clean(m.Source) == cpus
}
