package harden

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// endpoints decides how the host's sockets and pipes below a mounted directory are kept from the
// jail. In a layer over the directory, and in a sandbox's own kernel, each is another file, and no
// process of the host listens there.
func endpoints(p *pass, f *bindsource.Fact, b *plan.Bind) {
	if f.Kind != bindsource.Dir || b.Storage != plan.StorageDirect || p.f.Sandbox != "" ||
		f.Role == bindsource.Injected && !f.Part || protect.IsReachable(p.pol.Binds.Sockets, f.Path) {
		return
	}
	if b.Part = f.Part; b.Part && p.f.Host.Rootless && !protect.MayReachIn(p.pol.Binds.Sockets, f.Path) {
		b.Storage = plan.StorageTree
		return
	}
	b.NoWrite = b.ReadOnly && !p.f.Host.Rootless && (b.Owner == plan.OwnerDir || b.Owner == plan.OwnerNone) &&
		!protect.MayReachIn(p.pol.Binds.Sockets, f.Path)
	b.Endpoints = !b.NoWrite
	b.OfPod = b.Endpoints && f.OwnOfPod()
	b.Shared = b.OfPod || b.Endpoints && f.EnginesVolume() && p.f.Joins[specs.NetworkNamespace].Jail != ""
}
