package install

import (
	"strings"
	"testing"
)

// TestNamesOfEngines: a name that an engine has for itself is refused as that engine's, not as
// another's.
func TestNamesOfEngines(t *testing.T) {
	trustAll(t)
	for _, c := range []struct {
		engine Engine
		name   string
		own    bool
	}{
		{Docker, "runc", true},
		{Docker, "io.containerd.runc.v2", true},
		{Docker, "crun", false},
		{Containerd, "runc", true},
		{Containerd, "io.containerd.runc.v2", true},
		{Containerd, "crun", false},
		{Podman, "runc", true},
		{Podman, "crun", true},
		{Podman, "agentjail", false},
		{CRIO, "runc", true},
		{CRIO, "crun", true},
		{CRIO, "agentjail", false},
	} {
		_, err := complete(c.engine, Options{Runtimes: []Runtime{{Name: c.name, Path: "/bin/sh"}}, Shim: "/bin/ls"})
		if own := err != nil && strings.Contains(err.Error(), "is "+c.engine.Title()+"'s own"); own != c.own || !own && err != nil {
			t.Errorf("%s, %s: %v", c.engine.Name(), c.name, err)
		}
	}
}

// TestEngines: each has a name of its own, and defaults that a command line can show.
func TestEngines(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range []Engine{Docker, Containerd, Node, Podman, CRIO} {
		if e.Name() == "" || e.Title() == "" || seen[e.Name()] {
			t.Errorf("%q, %q", e.Name(), e.Title())
		}
		seen[e.Name()] = true
		d := e.Defaults()
		if len(d.Runtimes) == 0 && d.Machine.To == "" {
			t.Errorf("%s: %+v", e.Name(), d)
		}
		for _, path := range []string{d.Config, d.DropIn, d.PIDFile, d.Socket, d.Machine.To} {
			if path != "" && !plainPath(path) {
				t.Errorf("%s: %s", e.Name(), path)
			}
		}
	}
}
