package bindsource

import (
	"slices"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
)

// rootRemedy is the remedy for a directory that belongs to the host's root, in one line.
const rootRemedy = `chown it to the user who works in it, or mount it read-only; or policy: binds.allow, which opens all below it with root's rights; or, for all that is root's, ` +
	`binds.root = "nobody", which opens files that everybody may write to, or "allow", which opens all of it`

// Roots reports whether a source belongs to the host's root, so that its owner may not be the
// jail's: files that a jail writes as its owner would be root's, and the jail could read files
// that only root may read. An engine's files, and volumes that an engine or the kubelet made, are
// for containers and do not count.
func (f Fact) Roots() bool {
	return f.UID == 0 && !f.Rootless && !f.IsEngines()
}

// IsEngines reports whether an engine or the kubelet made the source for containers,
// and it is no directory of the host's that was mounted there.
func (f Fact) IsEngines() bool {
	switch f.Role {
	case Injected, EngineImage:
		return true
	case Volume:
		return f.Also == "" || sameVolume(f.Path, f.Also)
	case Pod:
		return f.OwnOfPod() || f.Plugin != ""
	}
	return false
}

// EnginesVolume reports whether a source is a volume in the engine's own storage, and
// not a directory of the host's that was made one.
func (f Fact) EnginesVolume() bool { return f.Role == Volume && f.IsEngines() }

// Allowed reports whether policy names the source: the host's owner accepts what the jail does
// there.
func Allowed(f Fact, b policy.Binds) bool {
	return f.Link == "" && slices.ContainsFunc(b.Allow, func(dir string) bool { return pathname.Within(f.Path, dir) })
}

// rootRefusal reports why a writable source of root's may not be mounted. With
// policy.RootNobody the jail is not its owner, so that nothing is to be refused.
func rootRefusal(f Fact, readOnly bool, b policy.Binds) *refusal.Error {
	if readOnly || !f.Roots() || b.Root == policy.RootNobody || b.Root == policy.RootAllow {
		return nil
	}
	if f.Missing {
		return refusal.New(refusal.BindRoots, "it is empty and the host's root's, as an engine makes a directory that is missing").
			WithRemedy("%s", "the right path, if this one was mistyped; else "+rootRemedy)
	}
	return refusal.New(refusal.BindRoots, "it belongs to the host's root, and files that a jail writes there would be root's").WithRemedy("%s", rootRemedy)
}

// hostPathRefusal returns why a directory of the node's may not be mounted into a pod: the pod's
// author has chosen it, and needs no rights on the node.
func hostPathRefusal(readOnly bool) *refusal.Error {
	if readOnly {
		return nil
	}
	return refusal.New(refusal.BindPod, "a pod's author chose this directory of the node's, to write to").
		WithRemedy("%s", "a volume of the pod's own, or readOnly: true; or "+
			allows("it to the pod, with its owner's rights, root's too"))
}
