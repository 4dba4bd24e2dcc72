package bindsource

import (
	"strings"
	"testing"
)

// TestPodImage: of the images that containerd has mounted for pods, a container has those of its own.
func TestPodImage(t *testing.T) {
	own, other, digest := strings.Repeat("a1", 32), strings.Repeat("b2", 32), strings.Repeat("c3", 32)
	e := Engine{IDs: []string{"c0ffee", own}}
	at := "/run/containerd/io.containerd.grpc.v1.cri/image-volumes/" + own + "/" + digest
	for path, want := range map[string]string{
		at: at, at + "/models/a": at, strings.Replace(at, own, other, 1): "", strings.TrimSuffix(at, "/"+digest): "", at + "0": "",
		strings.Replace(at, own, "c0ffee", 1): "", "/run/containerd/x": "", strings.Replace(at, "grpc.v1.cri", "grpc.v1.other", 1): "",
	} {
		if got := PodImage(path, e); got != want {
			t.Errorf("%s: %q, not %q", path, got, want)
		}
	}
}
