package install

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Podman gets a drop-in file of agentjail's own. It has no daemon to notify: each call of Podman
// reads the file.
var Podman Engine = podman{}

type podman struct{}

func (podman) Name() string  { return "podman" }
func (podman) Title() string { return "Podman" }

// Defaults has the drop-in for Podman (containers.conf(5)): Podman reads what is in that directory,
// in the order of names, at each of its calls, of root and of users.
func (podman) Defaults() Options {
	return Options{Runtimes: []Runtime{{Name: DefaultName}}, DropIn: "/etc/containers/containers.conf.d/agentjail.conf"}
}

// reserved reports whether a name is one of a runtime that Podman finds by itself.
func (podman) reserved(name string) bool {
	return slices.Contains([]string{"crun", "crun-vm", "krun", "kata", "ocijail", "runc", "runj", "runsc", "youki"}, name)
}

// plan writes the drop-in again with or without the runtimes. It is an errConflict if the file is
// not of this program's making or, with a default, if another file of the configuration names
// another default runtime. The file goes with its last entry.
func (podman) plan(p *Plan) error {
	o := p.options
	f, have, err := readPodman(p)
	if err != nil || o.Undo && !f.exists {
		return err
	}
	for _, r := range o.Runtimes {
		if err := have.set(o, r); err != nil {
			return err
		}
	}
	if o.Default != "" && !o.Undo {
		if err := otherDefaults(o); err != nil {
			return err
		}
		have.Engine.Runtime = o.Default
	}
	f.Remove = len(have.Engine.Runtimes) == 0
	f.After, err = have.render()
	return err
}

// podmanConf is the content of the drop-in.
type podmanConf struct {
	Engine struct {
		Runtime  string              `toml:"runtime"`
		Runtimes map[string][]string `toml:"runtimes"`
	} `toml:"engine"`
}

// set adds a runtime, or takes it out.
func (c *podmanConf) set(o Options, r Runtime) error {
	paths := c.Engine.Runtimes[r.Name]
	if len(paths) > 0 && !slices.Equal(paths, []string{r.Path}) && !o.Force {
		return fmt.Errorf("%s: runtime %s leads to %s, not to %s: %w", o.DropIn, r.Name, strings.Join(paths, ", "), r.Path, errConflict)
	}
	if !o.Undo {
		c.Engine.Runtimes[r.Name] = []string{r.Path}
		return nil
	}
	delete(c.Engine.Runtimes, r.Name)
	if c.Engine.Runtime == r.Name {
		c.Engine.Runtime = ""
	}
	return nil
}

const podmanHead = "# Written by `agentjail install podman`.\n"

// readPodman reads the drop-in, which must be as render writes it.
func readPodman(p *Plan) (*File, *podmanConf, error) {
	c := new(podmanConf)
	f, err := p.ownDropIn("podman", c, c.render)
	if c.Engine.Runtimes == nil {
		c.Engine.Runtimes = map[string][]string{}
	}
	return f, c, err
}

// render writes the drop-in.
func (c *podmanConf) render() ([]byte, error) {
	if len(c.Engine.Runtimes) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	b.WriteString(podmanHead)
	if c.Engine.Runtime != "" {
		fmt.Fprintf(&b, "[engine]\nruntime = %s\n\n", quoted(c.Engine.Runtime))
	}
	b.WriteString("[engine.runtimes]\n")
	for _, name := range slices.Sorted(maps.Keys(c.Engine.Runtimes)) {
		var paths []string
		for _, path := range c.Engine.Runtimes[name] {
			paths = append(paths, quoted(path))
		}
		fmt.Fprintf(&b, "%s = [%s]\n", tomlKey(name), strings.Join(paths, ", "))
	}
	if _, err := readTOML(b.Bytes()); err != nil {
		return nil, fmt.Errorf("the drop-in for Podman: %w", err)
	}
	return b.Bytes(), nil
}

// otherDefaults refuses to name a default runtime where another file does: the main file, whose
// owner chose it, or a drop-in that is read later and wins.
func otherDefaults(o Options) error {
	return checkOtherFiles(o.DropIn, func(file string, c *podmanConf) error {
		if r := c.Engine.Runtime; r != "" && r != o.Default && (readLater(file, o.DropIn) || !o.Force) {
			return fmt.Errorf("%s names the default runtime %s: %w", file, r, errConflict)
		}
		return nil
	})
}
