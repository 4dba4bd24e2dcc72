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

// TestSubpath: a mount that an engine makes of a part of a volume is the volume's, by its real place; one of something else is not.
func TestSubpath(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	e := Engine{IDs: []string{id}, Storage: []string{"/data/engine"}}
	const volume = "/data/engine/volumes/v/_data/s"
	podman := "/run/containers/storage/overlay-containers/" + id + "/userdata/"
	for _, c := range []struct {
		path, also string
		names      []string
		want       Role
	}{
		{podman + "subpath123", volume, nil, Volume},
		{podman + "subpath123", "/srv/lib/volumes/v/_data/s", []string{volume}, Volume},
		{podman + "subpath123", "/data/engine/overlay/x/diff", nil, Plain},
		{podman + "subpath123", "/data/engine/overlay/x/diff", []string{volume}, Plain},
		{podman + "subpath123/below", volume, nil, Plain},
		{podman + "other123", volume, nil, Plain},
		{strings.Replace(podman, id, strings.Repeat("f", 64), 1) + "subpath123", volume, nil, Plain},
		{"/srv/" + id + "/userdata/subpath123", volume, nil, Plain},
		{"/data/engine/tmp/safe-mount1", volume, nil, Volume},
		{"/srv/tmp/safe-mount1", volume, nil, Plain},
	} {
		s := &Source{Fact: Fact{Path: c.path, Also: c.also, Shown: Shown{Names: c.names}}}
		if isSubpath(s.Path, e) {
			s.setSubpath(e)
		}
		if s.Role != c.want || c.want == Volume && !s.EnginesVolume() {
			t.Errorf("%s of %s: %q", c.path, c.also, s.Role)
		}
	}
}
