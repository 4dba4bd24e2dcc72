package bindsource

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/refusal"
)

// Pod is the role of files that the kubelet has prepared for the container's own pod: its volumes
// and its files for each container.
const Pod Role = "pod"

// podUIDAnnotation is containerd's annotation with the id of a container's pod.
const podUIDAnnotation = "io.kubernetes.cri.sandbox-uid"

// PodUID returns the id of the Kubernetes pod that a container belongs to, or "". The id comes
// from the control group that the kubelet made for the pod, which a pod's description cannot
// choose: /kubepods/burstable/pod<UID>/<container>, or
// kubepods-burstable-pod<UID>.slice:cri-containerd:<container> with systemd, which has
// underscores for hyphens. A user may have written an annotation, so that an annotation can only
// remove the id.
func PodUID(s *specs.Spec) string {
	if s.Linux == nil {
		return ""
	}
	group, _, systemd := strings.Cut(s.Linux.CgroupsPath, ":")
	if !systemd {
		group = filepath.Dir(filepath.Clean(group))
	}
	name, slice := strings.CutSuffix(filepath.Base(group), ".slice")
	if slice {
		i := strings.LastIndex(name, "-pod")
		if i < 0 || !strings.HasPrefix(name, "kubepods") && !strings.Contains(name, "-kubepods") {
			return ""
		}
		name = strings.ReplaceAll(name[i+1:], "_", "-")
	} else if !strings.Contains(group+"/", "/kubepods/") {
		return ""
	}
	uid, ok := strings.CutPrefix(name, "pod")
	if !ok || !isPodUID(uid) {
		return ""
	}
	if named, ok := s.Annotations[podUIDAnnotation]; ok && named != uid {
		return ""
	}
	return uid
}

// criAnnotations are the annotations that CRI runtimes put on every container of a pod. CRI-O adds
// the pod's own afterwards, whose author may so change a value, and remove none. On another
// container, such an annotation only makes the checks stricter. Podman's containers of a pod have
// CRI-O's kind and sandbox, and not these: who calls Podman chooses their mounts.
var criAnnotations = []string{
	"io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id", // containerd
	"io.kubernetes.cri-o.ContainerID", "io.kubernetes.cri-o.Metadata", // CRI-O
}

// OfPod reports whether a container belongs to a Kubernetes pod. The pod's author chose its
// mounts.
func OfPod(s *specs.Spec) bool {
	return PodUID(s) != "" || slices.ContainsFunc(criAnnotations, func(name string) bool {
		_, has := s.Annotations[name]
		return has
	})
}

// isPodUID takes UUIDs, and the 32 digits that static pods have.
func isPodUID(s string) bool {
	return (len(s) == 36 && strings.Count(s, "-") == 4 || len(s) == 32) && strings.Trim(s, "0123456789abcdef-") == ""
}

// podDir splits a path into the kubelet's directory of the pod and the rest below it:
// ROOT/pods/UID, where ROOT is called kubelet in every distribution.
func podDir(path, uid string) (dir, below string, ok bool) {
	if uid == "" {
		return "", "", false
	}
	dir, below, ok = strings.Cut(path, "/kubelet/pods/"+uid+"/")
	return dir + "/kubelet/pods/" + uid, below, ok
}

// KubeletRoot is the kubelet's root directory that a path of some pod lies in, or "".
func KubeletRoot(path string) string {
	const name = "/kubelet"
	before, _, ok := strings.Cut(path+"/", name+"/pods/")
	if !ok {
		return ""
	}
	return before + name
}

// podRole recognises the kubelet's own: the copy of /etc/hosts, the file for the
// message about the container's end, and the volumes of this pod. (kubelet,
// pkg/kubelet/kubelet_getters.go)
func podRole(path, uid string) Role {
	_, below, ok := podDir(path, uid)
	if !ok {
		return Plain
	}
	parts := strings.Split(below, "/")
	switch {
	case below == "etc-hosts":
		return Injected
	case parts[0] == "volumes" && len(parts) >= 3 && strings.Contains(parts[1], "~"),
		parts[0] == "volume-subpaths" && len(parts) == 4,
		parts[0] == "containers" && len(parts) == 3:
		return Pod
	}
	return Plain
}

// sandboxFiles are the files that containerd makes for a pod, below SANDBOXES/ID.
var sandboxFiles = []string{"hostname", "hosts", "resolv.conf", "shm"}

// isSandboxFile recognises them by the id, wherever containerd keeps its files.
func isSandboxFile(path, id string) bool {
	const sandboxes = "/io.containerd.grpc.v1.cri/sandboxes/"
	if len(id) != 64 {
		return false
	}
	_, below, ok := strings.Cut(path, sandboxes+id+"/")
	return ok && slices.Contains(sandboxFiles, below)
}

// OwnOfPod reports whether a source lies in the pod's own directory, and is not a directory of
// the host that was mounted there. Files that the kubelet staged for the pod, and a share that
// other pods also have, are its own.
func (f Fact) OwnOfPod() bool {
	return f.Role == Pod && podRole(f.Path, f.Pod) == Pod && (f.Also == "" || podRole(f.Also, f.Pod) == Pod || f.staged())
}

// refusalOfPods judges the files that the kubelet prepared for the pod.
func refusalOfPods(f Fact, readOnly bool) *refusal.Error {
	if why, remedy := podRefusal(f, readOnly); why != "" {
		at := f.Path
		if f.Also != "" {
			at = f.Also
		}
		return refusal.New(refusal.BindSystem, "it is %s, and %s", at, why).WithRemedy("%s", remedy)
	}
	if f.IsEngines() {
		return nil
	}
	return hostPathRefusal(readOnly) // by a subPath
}

// podRefusal returns why a directory that the kubelet mounted for the pod from elsewhere is
// refused: a hostPath volume's subPath, or a local volume, is a directory of the host under
// another name.
func podRefusal(f Fact, readOnly bool) (why, remedy string) {
	dir, _, _ := podDir(f.Path, f.Pod)
	if why := forbidden(dir, readOnly); why != "" {
		return why, allows(ofHost)
	}
	if f.Also == "" || pathname.Within(f.Also, dir) && f.OwnOfPod() {
		return "", ""
	}
	if why := forbiddenElsewhere(f.Also, readOnly); why != "" {
		return why, allows(ofHost)
	}
	if f.OwnOfPod() { // the kubelet's directory is mounted from somewhere else, or staged
		return "", ""
	}
	if dir := overlapping(f.Also, append([]string{KubeletRoot(f.Also), KubeletRoot(f.Path)}, storage...)); dir != "" {
		return "an engine keeps its containers in " + dir, ofStorage
	}
	return forbiddenOfUsers(f.Also, f.Homes, readOnly)
}
