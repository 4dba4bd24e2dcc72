package jail

import (
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestEmptyMqueue: only where a delegate would label mqueue from outside the
// jail's user namespace is something else mounted in its place.
func TestEmptyMqueue(t *testing.T) {
	for name, c := range map[string]struct {
		label, path string
		empty       bool
	}{
		"SELinux":                         {"system_u:object_r:container_file_t:s0:c1,c2", "/proc/./7/fd/8", true},
		"SELinux, the delegate's to make": {"system_u:object_r:container_file_t:s0:c1,c2", "", false},
		"no SELinux":                      {"", "/proc/./7/fd/8", false},
	} {
		s := &specs.Spec{
			Mounts: []specs.Mount{
				{Destination: "/dev/shm", Type: "tmpfs", Source: "shm"},
				{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
			},
			Linux: &specs.Linux{MountLabel: c.label, Namespaces: []specs.LinuxNamespace{{Type: specs.UserNamespace, Path: c.path}}},
		}
		emptyMqueue(s)
		m := s.Mounts[1]
		if got := m.Type == "tmpfs" && slices.Contains(m.Options, "ro"); got != c.empty || m.Destination != "/dev/mqueue" || s.Mounts[0].Source != "shm" {
			t.Errorf("%s: %+v", name, s.Mounts)
		}
	}
}
