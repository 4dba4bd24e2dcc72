package bindsource

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestSandboxes: a sandbox's files are those of a container's own pod, by what root has written beside them, and of no other.
func TestSandboxes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root's files are believed; nothing is to be found as an ordinary user")
	}
	storage, err := os.MkdirTemp("/var/tmp", "agentjail-sandbox-") // below a directory that root owns
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(storage) })
	const uid, another = "0ed84a95-ce6f-bd63-c1fe-6f8e34abb804", "1ed84a95-ce6f-bd63-c1fe-6f8e34abb804"
	group := func(uid string) string { return "/kubepods/burstable/pod" + uid + "/crio-x" }
	id := strings.Repeat("a1", 32)
	dir := filepath.Join(storage, "overlay-containers", id, "userdata")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, config, group, path string
		found                     bool
	}{
		{"the pod's own", `{"linux":{"cgroupsPath":"` + group(uid) + `"}}`, group(uid), dir + "/shm", true},
		{"with systemd", `{"linux":{"cgroupsPath":"kubepods-burstable-pod` + strings.ReplaceAll(uid, "-", "_") + `.slice:crio:x"}}`, group(uid), dir + "/resolv.conf", true},
		{"another pod's", `{"linux":{"cgroupsPath":"` + group(another) + `"}}`, group(uid), dir + "/shm", false},
		{"of no pod", `{"linux":{"cgroupsPath":"/x"}}`, "/x", dir + "/shm", false},
		{"no configuration", `{`, group(uid), dir + "/shm", false},
		{"another file", `{"linux":{"cgroupsPath":"` + group(uid) + `"}}`, group(uid), dir + "/config.json", false},
		{"a way up", `{"linux":{"cgroupsPath":"` + group(uid) + `"}}`, group(uid), dir + "/../userdata/shm", false},
	} {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(c.config), 0o600); err != nil {
			t.Fatal(err)
		}
		s := &specs.Spec{Linux: &specs.Linux{CgroupsPath: c.group}, Mounts: []specs.Mount{{Source: c.path}}}
		if got := Sandboxes(s, []string{storage}); slices.Contains(got, id) != (c.found && os.Geteuid() == 0) {
			t.Errorf("%s: %v", c.what, got)
		}
		if got := Sandboxes(s, nil); len(got) > 0 {
			t.Errorf("%s, outside an engine's storage: %v", c.what, got)
		}
	}
	// Who can write the configuration could report what they like.
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"linux":{"cgroupsPath":"`+group(uid)+`"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "config.json"), 0o666); err != nil {
		t.Fatal(err)
	}
	s := &specs.Spec{Linux: &specs.Linux{CgroupsPath: group(uid)}, Mounts: []specs.Mount{{Source: dir + "/shm"}}}
	if got := Sandboxes(s, []string{storage}); len(got) > 0 {
		t.Errorf("by a file that others can write: %v", got)
	}
}
