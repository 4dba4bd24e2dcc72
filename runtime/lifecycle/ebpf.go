package lifecycle

import (
	"path"
	"strings"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/observe/ebpf/jailmap"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/state"
)

func registry(s state.Store) jailmap.Registry { return jailmap.Registry{Root: s.Root} }

// registerEBPF makes the waiting jail known to the eBPF programs if they do not recognise it by its
// host ids, and has them block what policy blocks beyond their default.
func (a *attempt) registerEBPF(pid int, mounts []mountinfo.Mount) error {
	j, block, sockets := a.j, a.j.Policy.EBPF.Block, len(a.j.Policy.Binds.Sockets) > 0
	if a.in.Facts.Host.Rootless {
		if len(block) > 0 {
			return refusal.New(refusal.EBPF, "policy blocks %s by eBPF programs, which are root's and do not know this user's jails",
				strings.Join(block, ", ")).WithRemedy("a root engine, or no ebpf.block")
		}
		return nil
	}
	if j.IDs.Readable() && len(block) == 0 && !sockets {
		return nil
	}
	var bound []string
	for _, m := range a.in.Bundle.Spec.Mounts {
		if harden.IsBind(m) {
			bound = append(bound, path.Clean(m.Destination))
		}
	}
	return onHostThread(func() error {
		return registry(a.rt.Store).Register(a.rt.Store.Dir(j.Key), j.Key, pid, block, sockets, jailmap.MountedDevices(bound, mounts))
	})
}
