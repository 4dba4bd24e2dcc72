package delegate

import (
	"slices"
	"strings"
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

// A delegate that refuses a newer number of the specification is given one that it knows.
func TestNewer(t *testing.T) {
	for _, c := range []struct {
		version, most string
		want          bool
	}{
		{"1.3.0", "", true},
		{"1.1.0", "", true},
		{"1.0.2-dev", "", false},
		{"1.0.2", "1.0.2-dev", false},
		{"1.3.0", "1.2.0", true},
		{"1.2.1", "1.2.0", false},
		{"2.0.0", "1.3.0", true},
		{"", "", false},
	} {
		if got := newer(c.version, c.most); got != c.want {
			t.Errorf("%q of %q: %v", c.version, c.most, got)
		}
	}
}

// TestDialect: what a delegate does not know is taken out of the spec, and whose
// it is to do is stated.
func TestDialect(t *testing.T) {
	made := func() *specs.Spec {
		return &specs.Spec{Version: "1.3.0", Linux: &specs.Linux{
			Namespaces:  []specs.LinuxNamespace{{Type: specs.TimeNamespace}, {Type: specs.UserNamespace, Path: "/proc/./7/fd/8"}},
			TimeOffsets: map[string]specs.LinuxTimeOffset{"boottime": {Secs: -5}, "monotonic": {Secs: -4, Nanosecs: 1}},
			UIDMappings: []specs.LinuxIDMapping{{HostID: 1 << 20, Size: 1}},
		}}
	}
	old := made()
	if got := (Caps{}).Dialect(old); got.Offsets != "boottime -5 0\nmonotonic -4 1\n" || got.Join != nil {
		t.Errorf("an old one: %+v", got)
	}
	if old.Version != "1.0.2" || len(old.Linux.Namespaces) != 1 || old.Linux.TimeOffsets != nil || len(old.Linux.UIDMappings) != 1 {
		t.Errorf("an old one gets %+v, %+v", old, old.Linux)
	}
	latest := made()
	if got := (Caps{OCIMax: "1.3.0", TimeNS: true, ReadsMaps: true}).Dialect(latest); got != (Time{}) {
		t.Errorf("a new one: %+v", got)
	}
	if latest.Version != "1.3.0" || len(latest.Linux.Namespaces) != 2 || len(latest.Linux.TimeOffsets) != 2 || latest.Linux.UIDMappings != nil {
		t.Errorf("a new one gets %+v, %+v", latest, latest.Linux)
	}
}

// TestStartArgs: create and exec hand the step's files on, and nothing that was
// not requested.
func TestStartArgs(t *testing.T) {
	a := StartArgs{ID: "x", Bundle: "/b", Process: "/p", PidFile: "/pid", Files: 2}
	if got, want := strings.Join(a.Create(), " "), "create --bundle /b --pid-file /pid --preserve-fds 2 x"; got != want {
		t.Errorf("%s", got)
	}
	a.Detach, a.IgnorePaused, a.PidFile, a.ConsoleSocket, a.PidfdSocket = true, true, "", "/c", "/f"
	if got, want := strings.Join(a.Exec(), " "), "exec --process /p --detach --ignore-paused --console-socket /c --pidfd-socket /f --preserve-fds 2 x"; got != want {
		t.Errorf("%s", got)
	}
}
