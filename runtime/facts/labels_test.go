package facts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/observe/enginerecord"
	"agentjail.dev/runtime/spec/bundle"
)

// TestReadLabels: the record is found by the container's id above its root, or beside another container's files, and one that
// cannot be found, read or trusted refuses the start.
func TestReadLabels(t *testing.T) {
	const id, other = "0123456789ab", "ba9876543210"
	record := fmt.Sprintf(`{"ID":%q,"Config":{"Labels":{"a":"b"}}}`, id)
	for _, c := range []struct {
		name, record string
		mode         os.FileMode
		namespace    string
		byRoot       bool
		want         string // of an error; "labels" or "none"
	}{
		{"by its root", record, 0o600, "moby", true, "labels"},
		{"by another's files", record, 0o600, "moby", false, "labels"},
		{"another namespace", record, 0o600, "mine", true, "labels"},
		{"no record", "", 0o600, "moby", true, "has none of container"},
		{"another engine's", "", 0o600, "", true, "none"},
		{"cut short", record[:20], 0o600, "moby", true, "unexpected end"},
		{"another's record", strings.Replace(record, id, other, 1), 0o600, "", true, "is the record of container"},
		{"written by others", record, 0o622, "", true, "others than its engine"},
		{"too long", "long", 0o600, "", true, "too long"},
	} {
		top := t.TempDir()
		own := filepath.Join(top, "data", "containers", id)
		if err := os.MkdirAll(own, 0o700); err != nil {
			t.Fatal(err)
		}
		if file := filepath.Join(own, "config.v2.json"); c.record != "" {
			if err := errors.Join(os.WriteFile(file, []byte(c.record), c.mode), os.Chmod(file, c.mode)); err != nil {
				t.Fatal(err)
			}
			if c.record == "long" && os.Truncate(file, 100<<20) != nil {
				t.Fatal("truncating")
			}
		}
		s := &specs.Spec{Root: &specs.Root{Path: "/nowhere/else"}}
		if c.byRoot {
			s.Root.Path = filepath.Join(top, "data", "overlay2", "layer", "merged")
		} else {
			s.Mounts = []specs.Mount{{Destination: "/etc/hosts", Source: filepath.Join(top, "data", "containers", other, "hosts")}}
		}
		dir := filepath.Join(top, "run", "bundle", id)
		if c.namespace != "" {
			dir = filepath.Join(top, "run", "io.containerd.runtime.v2.task", c.namespace, id)
		}
		p := &Gathered{Bundle: &bundle.Bundle{Dir: dir, Spec: s}}
		got := "none"
		if err := p.readLabels(id); err != nil {
			got = err.Error()
		} else if p.labels["a"] == "b" {
			got = "labels"
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// TestCRIOLabels: the labels of a pod of CRI-O's count for its containers, whose own replace them, and a pod's that cannot be read refuse the start.
func TestCRIOLabels(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's files are believed")
	}
	top, err := os.MkdirTemp("/var/tmp", "agentjail-crio-") // below a directory that root owns
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	of := func(id string) string { return filepath.Join(top, "overlay-containers", id, "userdata") }
	if err := os.MkdirAll(of("pod"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(of("pod"), bundle.ConfigName)
	p := &Gathered{Bundle: &bundle.Bundle{Dir: of("abc"), Spec: &specs.Spec{Annotations: map[string]string{
		"io.kubernetes.cri-o.SandboxID": "pod", "io.kubernetes.cri-o.Labels": `{"a": "own", "b": "own"}`,
	}}}}
	for text, want := range map[string]string{
		`{"annotations": {"io.kubernetes.cri-o.Labels": "{\"a\": \"pod\", \"c\": \"pod\"}"}}`: "map[a:own b:own c:pod]",
		`{"annotations": {}}`: "the labels of pod pod",
		`{`:                   "the labels of pod pod",
	} {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := p.readLabels("abc"); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(p.labels)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestFollowLabels: labels tighten beside annotations, and those of the image widen nothing.
func TestFollowLabels(t *testing.T) {
	const publish, pids = "dev.agentjail.network.publish", "dev.agentjail.limits.pids"
	for _, c := range []struct {
		name                       string
		labels, annotations, image map[string]string
		want                       string
	}{
		{"both", map[string]string{pids: "5", "x": "y"}, map[string]string{publish: "1:1"}, nil, "map[dev.agentjail.limits.pids:5 dev.agentjail.network.publish:1:1] 0"},
		{"the same", map[string]string{pids: "5"}, map[string]string{pids: "5"}, nil, "map[dev.agentjail.limits.pids:5] 0"},
		{"they differ", map[string]string{pids: "5"}, map[string]string{pids: "6"}, nil, "refused"},
		{"the image's", map[string]string{publish: "1:1", pids: "5"}, nil, map[string]string{publish: "1:1", pids: "5"}, "map[dev.agentjail.limits.pids:5] 1"},
		{"the caller's", map[string]string{publish: "2:1"}, nil, map[string]string{publish: "1:1"}, "map[dev.agentjail.network.publish:2:1] 0"},
		{"an image that cannot be read", map[string]string{publish: "2:1"}, nil, map[string]string{"unread": ""}, "map[] 1"},
		{"an image's wish for fewer", map[string]string{"dev.agentjail.journal.inside": "false"}, nil, map[string]string{"dev.agentjail.journal.inside": "false"}, "map[dev.agentjail.journal.inside:false] 0"},
	} {
		p := &Gathered{Bundle: &bundle.Bundle{Spec: &specs.Spec{Annotations: c.annotations}}, labels: c.labels}
		p.imageAsks = func() (map[string]string, error) {
			if _, unread := c.image["unread"]; unread {
				return nil, errors.New("unread")
			}
			return c.image, nil
		}
		err := p.followLabels("id")
		got := fmt.Sprint(p.Bundle.Spec.Annotations, " ", len(p.fromImage))
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	// Podman makes annotations of its image's manifest the container's.
	top := t.TempDir()
	userdata := filepath.Join(top, "overlay-containers", "id", "userdata")
	manifest := filepath.Join(top, "overlay-images", "i")
	if err := errors.Join(os.MkdirAll(userdata, 0o700), os.MkdirAll(manifest, 0o700),
		os.WriteFile(filepath.Join(top, "overlay-containers", "containers.json"), []byte(`[{"id":"id","image":"i","metadata":"{}"}]`), 0o600),
		os.WriteFile(filepath.Join(manifest, "manifest"), []byte(`{"annotations":{"`+publish+`":"1:1"}}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	for value, left := range map[string]bool{"1:1": false, "2:1": true} {
		p := &Gathered{
			Bundle: &bundle.Bundle{Dir: userdata, Spec: &specs.Spec{Annotations: map[string]string{publish: value}}},
			conmon: enginerecord.Conmon{Name: "c"},
		}
		err := p.followLabels("id")
		if _, has := p.Bundle.Spec.Annotations[publish]; has != left || err != nil {
			t.Errorf("%s: %v, %v", value, has, err)
		}
	}
}

// TestImageLabels: dockerd's own store of images and containerd's have the image's labels.
func TestImageLabels(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "containers", "id")
	own := filepath.Join(root, "image/overlay2/imagedb/content/sha256")
	bundle := filepath.Join(root, "bundle")
	blobs := filepath.Join(root, "c/io.containerd.content.v1.content/blobs/sha256")
	const image = `{"config":{"Labels":{"a":"b"}}}`
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.MkdirAll(own, 0o700), os.MkdirAll(blobs, 0o700), os.Mkdir(bundle, 0o700),
		os.Symlink(filepath.Join(root, "c/io.containerd.runtime.v2.task/moby/id"), filepath.Join(bundle, "work")),
		os.WriteFile(filepath.Join(own, "abc"), []byte(image), 0o600), os.WriteFile(filepath.Join(blobs, "def"), []byte(image), 0o600),
		os.WriteFile(filepath.Join(blobs, "abc"), []byte(`{"config":{"digest":"sha256:def"}}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	for record, want := range map[string]string{
		`{"Image":"sha256:abc","Driver":"overlay2"}`:                                             "map[a:b] <nil>",
		`{"Image":"sha256:top","Driver":"overlayfs","ImageManifest":{"digest":"sha256:abc"}}`:    "map[a:b] <nil>",
		`{"Image":"sha256:gone","Driver":"overlay2"}`:                                            "no such file",
		`{"Image":"../../../../../../etc/passwd","Driver":"overlay2"}`:                           "is not a digest",
		`{"Image":"sha256:../../../../../../../../../etc/passwd","Driver":"overlay2"}`:           "is not a digest",
		`{"Image":"sha256:abc","Driver":"overlayfs","ImageManifest":{"digest":"sha256:absent"}}`: "no such file",
	} {
		if err := os.WriteFile(filepath.Join(dir, "config.v2.json"), []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
		labels, err := enginerecord.ReadDocker(dir).ImageLabels(bundle)
		if got := fmt.Sprint(labels, " ", err); !strings.Contains(got, want) {
			t.Errorf("%s: %s", record, got)
		}
	}
}
