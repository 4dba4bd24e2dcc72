package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/version"
)

// nameAnnotations have a container's name: containerd's CRI and CRI-O (pkg/annotations), nerdctl
// (pkg/labels).
var nameAnnotations = []string{"io.kubernetes.cri.container-name", "io.kubernetes.cri-o.ContainerName", "io.kubernetes.cri-o.Name", "nerdctl/name"}

// places are parts of a bundle's path by which an engine is known.
var places = []struct{ part, engine string }{
	{"/moby/", "docker"}, {"/io.containerd.runtime.v2.task/k8s.io/", "containerd, for Kubernetes"}, {"/io.containerd.runtime.v2.task/", "containerd"},
	{"/buildkit/", "buildkit"}, {"/overlay-containers/", "podman or cri-o"}, {"/vfs-containers/", "podman or cri-o"},
}

// identity is what the journal records of a jail at its beginning, beside what every event has. It
// needs no look at anything.
func (a *attempt) identity() journal.Created {
	j, u := a.j, a.spec.Process.User
	out := journal.Created{
		Name: a.engineName(), Engine: engineOf(j.Bundle), Root: a.in.Root.Name(), Bundle: j.Bundle, Seccomp: j.Policy.Seccomp.Profile, Network: j.Network.Mode,
		Delegate: j.Delegate, Version: version.Version, User: strconv.FormatUint(uint64(u.UID), 10) + ":" + strconv.FormatUint(uint64(u.GID), 10),
	}
	if j.Policy.Origin != nil {
		out.PolicyName = j.Policy.Origin.Name
	}
	for _, c := range a.rep.Changes {
		if c.Kind == report.Set || c.Kind == report.Lowered {
			out.Set[c.Ring]++
		}
	}
	for _, m := range j.Mounted {
		out.Writable = append(out.Writable, m.At)
	}
	return out
}

// engineName is the container's name, where the engine's annotations have one.
func (a *attempt) engineName() string {
	for _, name := range nameAnnotations {
		if v := a.in.Bundle.Spec.Annotations[name]; v != "" {
			return v
		}
	}
	return ""
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

// hash is a file's content by its hash.
func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
