package harden

import (
	"strings"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/plan"
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

// guestOwners refuses capabilities of a guest's root beside a writable mount in which not every id
// of the jail has a place. The guest kernel lets them pass, the host does not, and gVisor drops the
// host's error: chown(2) and chmod(2) would return success and change nothing
// (pkg/sentry/fsimpl/gofer, setStat with InteropModeShared).
func guestOwners(p *pass) {
	if p.f.Sandbox == "" || len(p.plan.Capabilities) == 0 {
		return
	}
	for _, b := range p.plan.Binds {
		shm := p.spec.Mounts[b.Index].Destination == "/dev/shm" // every jail has one, empty
		if !b.ReadOnly && !b.Copy && !shm && b.Owner != plan.OwnerSame {
			p.addRefusal(refusal.New(refusal.Boundary, "in a %s sandbox, chown there would return success and change nothing for a root with capabilities", p.f.Sandbox).
				About("mount of %s", b.Source).WithRemedy("a volume, a read-only mount, or another delegate than one with a %s sandbox", p.f.Sandbox))
			return
		}
	}
}
