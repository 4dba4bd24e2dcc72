package install

import (
	"strings"
	"testing"
)

// TestNamesOfEngines: a name that an engine has for itself is refused as that engine's, not as another's.
func TestNamesOfEngines(t *testing.T) {
	for name, c := range map[string]struct {
		engine   string
		complete func([]Runtime) error
	}{
		"runc":                  {"Docker", func(r []Runtime) error { return (&DockerOptions{Runtimes: r}).complete() }},
		"io.containerd.runc.v2": {"containerd", func(r []Runtime) error { return (&ContainerdOptions{Runtimes: r, Shim: "/bin/shim"}).complete() }},
		"crun":                  {"Podman", func(r []Runtime) error { return (&PodmanOptions{Runtimes: r}).complete() }},
	} {
		err := c.complete([]Runtime{{Name: name, Path: "/bin/agentjail"}})
		if err == nil || !strings.Contains(err.Error(), "is "+c.engine+"'s own") {
			t.Errorf("%s: %v, want %s's own", name, err, c.engine)
		}
	}
	podman := PodmanOptions{Runtimes: []Runtime{{Name: "runc", Path: "/bin/agentjail"}}}
	if err := podman.complete(); err == nil || !strings.Contains(err.Error(), "Podman's own") {
		t.Errorf("runc for Podman: %v", err)
	}
	if err := (&PodmanOptions{Runtimes: []Runtime{{Name: "agentjail", Path: "/bin/agentjail"}}}).complete(); err != nil {
		t.Error(err)
	}
}
