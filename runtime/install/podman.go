package install

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// DefaultPodmanConfig is the drop-in for Podman (containers.conf(5)): Podman reads what is in that directory, in the order of names, at
// each of its calls. It is agentjail's alone.
const DefaultPodmanConfig = "/etc/containers/containers.conf.d/agentjail.conf"

// PodmanOptions say what to register and where.
type PodmanOptions struct {
	Runtimes []Runtime
	// Default is one of the names and becomes Podman's default runtime, for root and for users: every container that names none becomes
	// a jail. Empty leaves the default as it is.
	Default string
	Config  string // the drop-in; DefaultPodmanConfig if empty
	// Force replaces entries of the same name that lead elsewhere, and other default runtimes.
	Force bool
}

// PodmanPlan is a change of Podman's configuration that was thought out but not made.
type PodmanPlan struct{ *Plan }

// Apply writes the file, or removes it. There is nobody to tell: each call of Podman reads it. It fails with ErrFileChanged if the file
// is no longer as it was when the plan was made.
func (p *PodmanPlan) Apply() error {
	if !p.Changed() {
		return nil
	}
	if _, err := p.write(p.After, p.Remove); err != nil {
		return err
	}
	return dropBackup(p.File) // it holds nothing but what a plan wrote
}

// podmans are names of runtimes that Podman finds by itself.
var podmans = []string{"crun", "crun-vm", "krun", "kata", "ocijail", "runc", "runj", "runsc", "youki"}

func (o *PodmanOptions) complete() error {
	if o.Config == "" {
		o.Config = DefaultPodmanConfig
	}
	return registrable("Podman", func(name string) bool { return slices.Contains(podmans, name) }, o.Runtimes, o.Default)
}

// Podman plans the registration. A second plan after its Apply has no change. It fails when a program fails CheckBinary, when the file is
// not of this function's making, and with ErrConflict when a name leads elsewhere or, with o.Default, another file of the
// configuration names another default runtime.
func Podman(o PodmanOptions) (*PodmanPlan, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	for _, r := range o.Runtimes {
		if err := checkBinary(r.Path); err != nil {
			return nil, fmt.Errorf("runtime %s: %w", r.Name, err)
		}
	}
	p, have, err := readPodman(o)
	if err != nil {
		return nil, err
	}
	for _, r := range o.Runtimes {
		if paths := have.Engine.Runtimes[r.Name]; len(paths) > 0 && !slices.Equal(paths, []string{r.Path}) && !o.Force {
			return nil, fmt.Errorf("%s: runtime %s leads to %s, not to %s: %w", o.Config, r.Name, strings.Join(paths, ", "), r.Path, ErrConflict)
		}
		have.Engine.Runtimes[r.Name] = []string{r.Path}
	}
	if o.Default != "" {
		if err := otherDefaults(o); err != nil {
			return nil, err
		}
		have.Engine.Runtime = o.Default
	}
	if p.After, err = have.render(); err != nil {
		return nil, err
	}
	return p.done()
}

// UndoPodman plans the removal of what Podman plans to add. The file goes with its last entry.
func UndoPodman(o PodmanOptions) (*PodmanPlan, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	p, have, err := readPodman(o)
	if err != nil {
		return nil, err
	}
	p.undo = true
	if !p.exists {
		return p.done()
	}
	for _, r := range o.Runtimes {
		paths := have.Engine.Runtimes[r.Name]
		if len(paths) > 0 && !slices.Equal(paths, []string{r.Path}) && !o.Force {
			return nil, fmt.Errorf("%s: runtime %s leads to %s, not to %s: %w", o.Config, r.Name, strings.Join(paths, ", "), r.Path, ErrConflict)
		}
		delete(have.Engine.Runtimes, r.Name)
		if have.Engine.Runtime == r.Name {
			have.Engine.Runtime = ""
		}
	}
	if p.After, err = have.render(); err != nil {
		return nil, err
	}
	p.Remove = len(have.Engine.Runtimes) == 0
	return p.done()
}

func (p *PodmanPlan) done() (*PodmanPlan, error) {
	_, err := p.finish()
	return p, err
}

// podmanConf is what the drop-in says.
type podmanConf struct {
	Engine struct {
		Runtime  string              `toml:"runtime"`
		Runtimes map[string][]string `toml:"runtimes"`
	} `toml:"engine"`
}

const podmanHead = "# Written by `agentjail install podman`.\n"

// readPodman reads the drop-in, which must be as render writes it, so that nothing is lost when it is written again.
func readPodman(o PodmanOptions) (*PodmanPlan, *podmanConf, error) {
	base, err := newPlan(DockerOptions{Config: o.Config})
	if err != nil {
		return nil, nil, err
	}
	p, c := &PodmanPlan{base}, new(podmanConf)
	c.Engine.Runtimes = map[string][]string{}
	if !p.exists {
		return p, c, nil
	}
	if err := toml.Unmarshal([]byte(p.Before), c); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.Config, err)
	}
	if c.Engine.Runtimes == nil {
		c.Engine.Runtimes = map[string][]string{}
	}
	if text, err := c.render(); err != nil || !bytes.Equal(text, p.Before) {
		if !o.Force {
			return nil, nil, fmt.Errorf("%s is not as `agentjail install podman` writes it: move what is yours to another file of that directory: %w", o.Config, ErrConflict)
		}
	}
	return p, c, nil
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
	var names []string
	for name := range c.Engine.Runtimes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		key := name
		if strings.Contains(name, ".") {
			key = quoted(name)
		}
		var paths []string
		for _, path := range c.Engine.Runtimes[name] {
			paths = append(paths, quoted(path))
		}
		fmt.Fprintf(&b, "%s = [%s]\n", key, strings.Join(paths, ", "))
	}
	var again podmanConf
	if err := toml.Unmarshal(b.Bytes(), &again); err != nil {
		return nil, fmt.Errorf("the drop-in for Podman: %w", err)
	}
	return b.Bytes(), nil
}

// quoted is a TOML basic string; names and paths have no control characters that Go would escape otherwise.
func quoted(s string) string { return strconv.Quote(s) }

// otherDefaults refuses to name a default runtime where another file does: the main file, whose owner chose it, or a drop-in that is read
// later and wins.
func otherDefaults(o PodmanOptions) error {
	directory := filepath.Dir(o.Config)
	files, err := filepath.Glob(filepath.Join(directory, "*.conf"))
	if err != nil {
		return err
	}
	if main := filepath.Join(filepath.Dir(directory), "containers.conf"); strings.HasSuffix(directory, ".d") {
		files = append(files, main)
	}
	for _, file := range files {
		if file == o.Config {
			continue
		}
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var c podmanConf
		if err := toml.Unmarshal([]byte(text), &c); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		later := filepath.Dir(file) == directory && filepath.Base(file) > filepath.Base(o.Config)
		if r := c.Engine.Runtime; r != "" && r != o.Default && (later || !o.Force) {
			return fmt.Errorf("%s names the default runtime %s: %w", file, r, ErrConflict)
		}
	}
	return nil
}
