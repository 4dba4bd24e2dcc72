// Package agents has presets for `agentjail sandbox --agent NAME`: what a jail for a known agent
// needs. A preset is a file NAME.toml in the administrator's directory, or one of this package.
package agents

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/policy"
)

// DefaultDir is the administrator's directory. Its presets come before those of this package.
const DefaultDir = "/etc/agentjail/agents"

//go:embed *.toml
var embedded embed.FS

// maxFile bounds a preset's file, in bytes.
const maxFile = 64 << 10

// An Agent is one preset.
type Agent struct {
	Name string `toml:"-"`
	// Program is the program's name, as the caller's PATH has it.
	Program string `toml:"program"`
	// Places are further directories to find it in; "~" is the owner's home.
	Places []string `toml:"places"`
	// Minimum is the oldest version that works; "" means any. Install is the line that installs the
	// program.
	Minimum string `toml:"minimum"`
	Install string `toml:"install"`
	// Arguments come before those of the caller.
	Arguments []string `toml:"arguments"`
	// Allow are the rules of the network (runtime/spec/netrules).
	Allow []string          `toml:"allow"`
	Env   map[string]string `toml:"env"`
	Home  Home              `toml:"home"`
	// Credential is the agent's key; nil for an agent without one.
	Credential *Credential `toml:"credential"`
}

// Home describes the agent's home directory.
type Home struct {
	Size policy.Size `toml:"size"`
	// Files are in a new home, by path.
	Files map[string]string `toml:"files"`
}

// A Credential is a key that the agent uses and does not have.
type Credential struct {
	// Name is that of the credential in policy, which comes before the preset's own.
	Name string `toml:"name"`
	credential.Spec
	// Set and Arguments are further variables and arguments of an agent that has the credential.
	Set       map[string]string `toml:"set"`
	Arguments []string          `toml:"arguments"`
}

// Names lists the presets of this package.
func Names() []string {
	files, _ := fs.Glob(embedded, "*.toml")
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".toml")
	}
	return files
}

// Load returns a preset: that of the administrator's directory dir, or that of this package.
func Load(dir, name string) (*Agent, error) {
	if !netrules.PresetName(name) {
		return nil, fmt.Errorf("%q is no preset's name (remedy: one of %s, or a file NAME.toml in %s)", name, strings.Join(Names(), ", "), dir)
	}
	path := filepath.Join(dir, name+".toml")
	text, err := trusted.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		path = "preset " + name
		text, err = embedded.ReadFile(name + ".toml")
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no preset %q (remedy: one of %s, or a file %s.toml in %s)", name, strings.Join(Names(), ", "), name, dir)
		}
	}
	if err != nil {
		return nil, err
	}
	a, err := parse(name, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

func parse(name string, text []byte) (*Agent, error) {
	a := &Agent{Name: name, Home: Home{Size: 1 << 30}}
	d := toml.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(a); err != nil {
		if unknown, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(unknown.Errors) > 0 {
			row, _ := unknown.Errors[0].Position()
			return nil, fmt.Errorf("line %d: unknown key %q", row, strings.Join(unknown.Errors[0].Key(), "."))
		}
		return nil, err
	}
	return a, a.check()
}

// Bounds of a home's size.
const (
	minHome = 16 << 20
	maxHome = 1 << 40
)

func (a *Agent) check() error {
	if a.Program == "" || strings.Contains(a.Program, "/") {
		return fmt.Errorf("program = %q: must be a name without a path", a.Program)
	}
	if a.Install == "" {
		return errors.New("install: must be the line that installs the program")
	}
	if _, err := version(a.Minimum); a.Minimum != "" && err != nil {
		return fmt.Errorf("minimum: %w", err)
	}
	if s := int64(a.Home.Size); s < minHome || s > maxHome {
		return fmt.Errorf("home.size = %s: must be between 16MiB and 1TiB", a.Home.Size)
	}
	for name := range a.Home.Files {
		if !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." {
			return fmt.Errorf("home.files: %q is no path below the home", name)
		}
	}
	for _, p := range a.Places {
		if !filepath.IsAbs(p) && !strings.HasPrefix(p, "~/") {
			return fmt.Errorf("places: %q must begin with / or ~/", p)
		}
	}
	if c := a.Credential; c != nil {
		spec := c.Spec
		if spec.From == "" {
			return errors.New(`credential.from: must be "file:PATH" or "command:PATH ARGUMENT..."`)
		}
		return credential.Set{c.Name: spec}.Check()
	}
	return nil
}

// Dirs are the directories in which the program is looked for: those of the caller's PATH, then
// Places. home is the owner's home.
func (a *Agent) Dirs(path, home string) []string {
	dirs := filepath.SplitList(path)
	for _, p := range a.Places {
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			if home == "" {
				continue
			}
			p = filepath.Join(home, rest)
		}
		found, err := filepath.Glob(p)
		if err != nil {
			continue
		}
		slices.Reverse(found) // of several versions, the last
		dirs = append(dirs, found...)
	}
	return slices.DeleteFunc(dirs, func(d string) bool { return !filepath.IsAbs(d) })
}
