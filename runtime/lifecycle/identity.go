package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/version"
)

// nameAnnotations are where engines tell a container's name: containerd's CRI and CRI-O (pkg/annotations), nerdctl (pkg/labels).
var nameAnnotations = []string{"io.kubernetes.cri.container-name", "io.kubernetes.cri-o.ContainerName", "io.kubernetes.cri-o.Name", "nerdctl/name"}

// places are parts of a bundle's path by which an engine is known.
var places = []struct{ part, engine string }{
	{"/moby/", "docker"}, {"/io.containerd.runtime.v2.task/k8s.io/", "containerd, for Kubernetes"}, {"/io.containerd.runtime.v2.task/", "containerd"},
	{"/buildkit/", "buildkit"}, {"/overlay-containers/", "podman or cri-o"}, {"/vfs-containers/", "podman or cri-o"},
}

// identity is what the journal says of a jail at its beginning, beside what every event has: facts. It costs no look at anything.
func (a *attempt) identity() []string {
	j, spec := a.j, a.spec
	var out []string
	add := func(name, value string) {
		if value != "" {
			out = append(out, name+"="+value)
		}
	}
	for _, name := range nameAnnotations {
		if v := a.p.b.Spec.Annotations[name]; v != "" {
			add("name", v)
			break
		}
	}
	for _, p := range places {
		if strings.Contains(j.Bundle+"/", p.part) {
			add("engine", p.engine)
			break
		}
	}
	add("root", a.p.rootfs.Name())
	add("bundle", j.Bundle)
	if j.Policy.Origin != nil {
		add("policy.name", j.Policy.Origin.Name)
	}
	add("seccomp", j.Policy.Seccomp.Profile)
	add("network", j.Network.Mode)
	add("delegate", j.Delegate)
	add("version", version.Version)
	u := spec.Process.User
	add("user", strconv.FormatUint(uint64(u.UID), 10)+":"+strconv.FormatUint(uint64(u.GID), 10))
	set := map[report.Ring]int{}
	for _, c := range a.p.rep.Changes {
		if c.Kind == report.Set || c.Kind == report.Lowered {
			set[c.Ring]++
		}
	}
	for _, ring := range []report.Ring{report.Resources, report.Access, report.Kernel} {
		add("ring"+strconv.Itoa(int(ring))+".set", strconv.Itoa(set[ring]))
	}
	for _, m := range j.Mounted {
		add("writable", m.At)
	}
	return out
}

// hash is a file's content by its hash.
func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
