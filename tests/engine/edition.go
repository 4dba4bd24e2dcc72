package engine

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// EditionEnv names the environment variable with the name of the Edition that tests start where they request none.
const EditionEnv = "AGENTJAIL_TEST_DOCKER"

// An Edition is a Docker to test with. The zero value is the distribution's.
type Edition struct {
	// Newest is the dockerd that hack/tools builds, over the newest containerd and runc.
	Newest bool
	// Overlay2 keeps images in dockerd's own store, and not in containerd's, which the newest prefers.
	Overlay2 bool
	// ByShim registers agentjail's shim in the place of its command line.
	ByShim bool
}

// Editions are those that can be chosen, by name.
var Editions = map[string]Edition{
	"":            {},
	"29":          {Newest: true},
	"29-overlay2": {Newest: true, Overlay2: true},
	"29-shim":     {Newest: true, ByShim: true},
}

// chosenEdition is what EditionEnv names.
func chosenEdition() (Edition, error) {
	name := os.Getenv(EditionEnv)
	e, ok := Editions[name]
	if !ok {
		return e, fmt.Errorf("%s=%s: no Docker is called so; there are %q", EditionEnv, name, slices.Sorted(maps.Keys(Editions)))
	}
	return e, nil
}

// Edition is the engine's.
func (e *Engine) Edition() Edition { return e.edition }

// Needs skips a test of an edition that cannot be built here: the virtual machines have no Go.
func (e Edition) Needs(t testing.TB) {
	t.Helper()
	if !e.Newest {
		return
	}
	if dir := os.Getenv(builtToolsEnv); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "dockerd")); err != nil {
			t.Skip("this Docker is not among the tools that were built:", err)
		}
	} else if err := exec.Command("go", "version").Run(); err != nil {
		t.Skip("no Go to build this Docker with:", err)
	}
}

// Programs are the directories with an edition's programs, searched before the system's.
func (e Edition) Programs() ([]string, error) {
	if !e.Newest {
		return nil, nil
	}
	var dirs []string
	for _, tool := range []string{"dockerd", "containerd", "runc"} {
		path, err := Tool(tool)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	return dirs, nil
}

// settings are an edition's own of daemon.json.
func (e Edition) settings() map[string]any {
	if !e.Newest {
		return nil
	}
	s := map[string]any{"features": map[string]bool{"containerd-snapshotter": !e.Overlay2}}
	if e.Overlay2 {
		s["storage-driver"] = "overlay2"
	}
	return s
}

// runtime is an entry for the command line as an edition has it.
func (e Edition) runtime(r Runtime) (Runtime, error) {
	if !e.ByShim || r.Path == "" || !strings.HasPrefix(filepath.Base(r.Path), Name) {
		return r, nil
	}
	dir, err := Shim()
	if err != nil {
		return r, err
	}
	shim := filepath.Join(dir, strings.Replace(ShimName, Name, filepath.Base(r.Path), 1))
	if _, err := os.Stat(shim); os.IsNotExist(err) {
		err = os.Link(filepath.Join(dir, ShimName), shim) // its name is that of a policy
		if err != nil {
			return r, err
		}
	}
	out := Runtime{Type: shim}
	if len(r.Args) == 2 && r.Args[0] == "--config" {
		out.Options = map[string]any{"TypeUrl": Name, "ConfigPath": r.Args[1]}
	} else if len(r.Args) > 0 {
		return r, fmt.Errorf("the shim has no option for the arguments %q", r.Args)
	}
	return out, nil
}
