package bindsource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/spec/policy"
)

const podUID = "0a1b2c3d-1111-2222-3333-0a1b2c3d4e5f"

// A pod's id is read from the control group that the kubelet chose, in both
// drivers' forms, and an annotation can only take it away.
func TestPodUID(t *testing.T) {
	under := strings.ReplaceAll(podUID, "-", "_")
	static := strings.Repeat("0123456789abcdef", 2)
	for _, c := range []struct{ path, annotation, want string }{
		{"/kubepods/burstable/pod" + podUID + "/" + strings.Repeat("a", 64), "", podUID},
		{"/kubepods/pod" + podUID + "/x", "", podUID},
		{"/somewhere/kubepods/besteffort/pod" + podUID + "/x", "", podUID},
		{"/kubepods/burstable/pod" + static + "/x", "", static},
		{"kubepods-burstable-pod" + under + ".slice:cri-containerd:x", "", podUID},
		{"kubelet-kubepods-burstable-pod" + under + ".slice:cri-containerd:x", "", podUID},
		{"kubepods-pod" + static + ".slice:cri-containerd:x", "", static},
		{"/kubepods/burstable/pod" + podUID + "/x", podUID, podUID},
		{"/kubepods/burstable/pod" + podUID + "/x", "another", ""},
		{"", podUID, ""},
		{"/docker/x", podUID, ""},
		{"/kubepods/x", podUID, ""},
		{"/pod" + podUID + "/x", podUID, ""},
		{"user.slice:pod" + under + ":x", podUID, ""},
		{"other-pod" + under + ".slice:a:b", podUID, ""},
		{"/kubepods/pod../x", "", ""},
		{"/kubepods/pod" + podUID[:35] + "/x", "", ""},
		{"/kubepods/pod" + podUID[:35] + "*/x", "", ""},
	} {
		s := &specs.Spec{Linux: &specs.Linux{CgroupsPath: c.path}}
		if c.annotation != "" {
			s.Annotations = map[string]string{podUIDAnnotation: c.annotation}
		}
		if got := PodUID(s); got != c.want {
			t.Errorf("%s, stated %q: %q", c.path, c.annotation, got)
		}
	}
	if got := PodUID(&specs.Spec{}); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// What the kubelet has made for the pod may be mounted; another pod's, what is
// beside it, and directories of the host under such a name may not.
func TestPodSources(t *testing.T) {
	const own, other = "/var/lib/kubelet/pods/" + podUID, "/var/lib/kubelet/pods/9a1b2c3d-1111-2222-3333-0a1b2c3d4e5f"
	for _, c := range []struct {
		path, also string
		role       Role
		may        bool
	}{
		{own + "/volumes/kubernetes.io~empty-dir/cache", "", Pod, true},
		{own + "/volumes/kubernetes.io~projected/token/..data", "", Pod, true},
		{own + "/volume-subpaths/cache/main/0", own + "/volumes/kubernetes.io~empty-dir/cache/sub", Pod, true},
		{own + "/containers/main/0f1e2d3c", "", Pod, true},
		{own + "/etc-hosts", "", Injected, true},
		{"/var/lib/k0s/kubelet/pods/" + podUID + "/volumes/kubernetes.io~secret/s", "", Pod, true},
		{own + "/volumes/kubernetes.io~local-volume/disk", "/mnt/disk", Pod, true},
		{own + "/volumes/kubernetes.io~local-volume/disk", "/etc", Pod, false},
		{own + "/volumes/kubernetes.io~local-volume/disk", "/var/lib/docker/volumes/x", Pod, false},
		{own + "/volumes/kubernetes.io~empty-dir/cache", "/data/kubelet/pods/" + podUID + "/volumes/kubernetes.io~empty-dir/cache", Pod, true},
		{own + "/volumes/kubernetes.io~empty-dir/cache", "/etc/kubelet/pods/" + podUID + "/volumes/kubernetes.io~empty-dir/cache", Pod, false},
		{own + "/volume-subpaths/host/main/0", "/data/kubelet/pods/9a1b2c3d-1111-2222-3333-0a1b2c3d4e5f/volumes/kubernetes.io~secret/s", Pod, false},
		{own + "/volume-subpaths/host/main/0", own + "/plugins/x", Pod, false},
		{own + "/volume-subpaths/host/main/0", other + "/volumes/kubernetes.io~secret/s", Pod, false},
		{own + "/volume-subpaths/host/main/0", "/", Pod, false},
		{"/etc/kubelet/pods/" + podUID + "/volumes/a~b/c", "", Pod, false},
		{own, "", Plain, false},
		{own + "/volumes", "", Plain, false},
		{own + "/volumes/plain/x", "", Plain, false},
		{own + "/plugins/x", "", Plain, false},
		{other + "/volumes/kubernetes.io~secret/s", "", Plain, false},
		{"/var/lib/kubelet/pki", "", Plain, false},
	} {
		f := Fact{Path: c.path, Kind: Dir, Role: role(c.path, Engine{Pod: podUID}), Also: c.also}
		if f.Role == Pod {
			f.Pod = podUID
			if parts := strings.Split(strings.TrimPrefix(c.path, own+"/"), "/"); parts[0] == "volumes" {
				f.Plugin = parts[1]
			}
		}
		for _, dir := range storage {
			if f.Role == Plain && pathname.Within(c.path, dir) {
				f.Storage = dir
			}
		}
		if f.Role != c.role {
			t.Errorf("%s is %q, not %q", c.path, f.Role, c.role)
		}
		if why := text(Refusal(f, false, policy.Binds{})); (why == "") != c.may {
			t.Errorf("%s (%s): %q", c.path, c.also, why)
		}
		if same := c.may && f.Role == Pod && c.also != "/mnt/disk"; f.OwnOfPod() != same && c.may {
			t.Errorf("%s (%s): own %v", c.path, c.also, f.OwnOfPod())
		}
		// Without a pod, nothing of this is the engine's.
		if r := role(c.path, Engine{}); r != Plain {
			t.Errorf("%s is %q outside a pod", c.path, r)
		}
	}
}

// containerd's files for a sandbox are known by the sandbox's id, wherever they
// are.
func TestSandboxFiles(t *testing.T) {
	own, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	for _, dir := range []string{"/run/k3s/containerd", "/var/lib/containerd"} {
		for _, name := range []string{"hostname", "hosts", "resolv.conf", "shm", "state.json", "shm/x"} {
			at := filepath.Join(dir, "io.containerd.grpc.v1.cri/sandboxes", own, name)
			want := Injected
			if name == "state.json" || name == "shm/x" {
				want = Plain
			}
			if got := role(at, Engine{IDs: []string{own}}); got != want {
				t.Errorf("%s is %q", at, got)
			}
			if got := role(at, Engine{IDs: []string{other}}); got != Plain {
				t.Errorf("%s is %q to another", at, got)
			}
		}
	}
}

// A real file of a pod: the role comes with the pod's id.
func TestOpenPodVolume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kubelet/pods", podUID, "volumes/kubernetes.io~empty-dir/x")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Engine{Pod: podUID})
	if err != nil {
		t.Fatal(err)
	}
	defer s.File.Close()
	if s.Role != Pod || s.Pod != podUID {
		t.Errorf("%+v", s.Fact)
	}
}

// TestOfPod: a pod's author cannot hide that a container is a pod's, and Podman's pods are none of Kubernetes'.
func TestOfPod(t *testing.T) {
	const group = "/kubepods/besteffort/pod8b4c2f0e-6f0a-4d5e-9a51-0123456789ab/x"
	for name, c := range map[string]struct {
		group       string
		annotations map[string]string
		want        bool
	}{
		"containerd":                    {"", map[string]string{"io.kubernetes.cri.container-type": "container"}, true},
		"containerd, by the group":      {group, nil, true},
		"CRI-O":                         {"", map[string]string{"io.kubernetes.cri-o.ContainerID": "a", "io.kubernetes.cri-o.Metadata": "{}"}, true},
		"CRI-O, values of the author's": {"", map[string]string{"io.kubernetes.cri-o.ContainerID": "", "io.kubernetes.cri-o.Metadata": "", "io.container.manager": "libpod"}, true},
		"Podman": {"/libpod_parent/libpod-a", map[string]string{
			"io.container.manager": "libpod", "io.kubernetes.cri-o.ContainerType": "container", "io.kubernetes.cri-o.SandboxID": "b", "io.kubernetes.cri-o.TTY": "false",
		}, false},
		"nothing": {"", nil, false},
	} {
		if got := OfPod(&specs.Spec{Annotations: c.annotations, Linux: &specs.Linux{CgroupsPath: c.group}}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
