package harden

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// ownSys mounts a small tmpfs in place of sysfs. Staging fills it with the jail's files
// (procfiles.Sys).
func ownSys(p *pass, m *specs.Mount, opts []string) []string {
	reportWritable(p, m, opts)
	if m.Type == "sysfs" {
		p.change(rings.Access, report.Set, mountField(m), "sysfs", "its own processors and control groups",
			"the host's devices and drivers are not the jail's to see")
	}
	m.Type, m.Source = "tmpfs", "tmpfs"
	return append(opts, "mode=755", "size=65536", "nr_inodes=64")
}
