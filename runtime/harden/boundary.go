package harden

import (
	"strings"

	"agentjail.dev/runtime/refusal"
)

// boundary refuses what a sandbox cannot hold, where policy requires it, and what would be beside
// the sandbox instead of in it.
func boundary(p *pass) {
	name := p.f.Sandbox
	if name == "" {
		return
	}
	other := "another delegate than one with a " + name + " sandbox"
	for _, j := range p.f.Joins {
		if j.Jail != "" {
			p.addRefusal(refusal.New(refusal.Boundary, "it joins namespaces of jail %s, and a %s sandbox holds one container", j.Jail, name).
				About("linux.namespaces").WithRemedy("a pod of one container, or %s", other))
			break
		}
	}
	if p.f.Host.Rootless {
		p.addRefusal(refusal.New(refusal.Boundary, "a %s sandbox is made by root's engine alone",
			name).WithRemedy("a root engine, or %s", other))
	}
	if b := p.pol.EBPF.Block; len(b) > 0 {
		p.addRefusal(refusal.New(refusal.Boundary, "policy blocks %s by eBPF programs, which see a %s sandbox and not the programs in it", strings.Join(b, ", "), name).
			About("ebpf.block").WithRemedy("no ebpf.block, or %s", other))
	}
	if p.pol.Process.DenyWriteExecute {
		p.addRefusal(refusal.New(refusal.Boundary, "the kernel of a %s sandbox lets written memory become executable", name).
			About("process.deny_write_execute").WithRemedy("process.deny_write_execute = false, or %s", other))
	}
}
