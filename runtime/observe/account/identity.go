package account

import (
	"strconv"
	"strings"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/version"
)

// places are parts of a bundle's path by which an engine is known.
var places = []struct{ part, engine string }{
	{"/moby/", "docker"},
	{"/io.containerd.runtime.v2.task/k8s.io/", "containerd, for Kubernetes"},
	{"/io.containerd.runtime.v2.task/", "containerd"},
	{"/buildkit/", "buildkit"},
	{"/overlay-containers/", "podman or cri-o"},
	{"/vfs-containers/", "podman or cri-o"},
}

// Identity is what the journal records of a jail at its beginning, beside what every event has.
// name and image are the engine's names of the container and its image, and root is the path of the
// jail's root.
func Identity(j *state.Jail, name, image, root string, rep *report.Report) journal.Created {
	u := j.Process.User
	out := journal.Created{
		Name: name, Image: image, Engine: engineOf(j.Bundle), Root: root, Bundle: j.Bundle, Seccomp: j.Policy.Seccomp.Profile,
		Network: j.Network.Mode, Capabilities: j.Capabilities,
		Delegate: j.Delegate, Version: version.Version, Invoker: j.Invoker,
		User: strconv.FormatUint(uint64(u.UID), 10) + ":" + strconv.FormatUint(uint64(u.GID), 10),
	}
	if j.Policy.Origin != nil {
		out.PolicyName, out.Allow = j.Policy.Origin.Name, j.Policy.Origin.Allow
	}
	for _, c := range rep.Changes {
		if c.Kind == report.Set || c.Kind == report.Lowered {
			out.Set[c.Ring]++
		}
	}
	for _, m := range j.Mounted {
		out.Writable = append(out.Writable, m.At)
	}
	return out
}

// engineOf is the engine that made a bundle, by the bundle's path; "" for an unknown one.
func engineOf(bundle string) string {
	for _, p := range places {
		if strings.Contains(bundle+"/", p.part) {
			return p.engine
		}
	}
	return ""
}
