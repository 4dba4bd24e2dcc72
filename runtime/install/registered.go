package install

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Registered lists the names under which an engine's configuration leads to agentjail in the
// directory dir, as NewPlan writes them. It reads the files that o, or the engine's defaults, name.
// An entry that another program wrote or changed is not listed.
func Registered(e Engine, o Options, dir string) ([]Runtime, error) {
	o.Shim = cmp.Or(o.Shim, filepath.Join(dir, ShimName))
	p := &Plan{options: o.or(e.Defaults()), live: noDaemon{}}
	all, err := e.registered(p)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r Runtime) bool {
		base := filepath.Base(r.Path)
		return filepath.Dir(r.Path) != dir || base != DefaultName && !strings.HasPrefix(base, DefaultName+"-")
	})
	slices.SortFunc(all, func(a, b Runtime) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(all), nil
}

func (docker) registered(p *Plan) ([]Runtime, error) {
	f, err := p.file(p.options.Config)
	if err != nil || !f.exists {
		return nil, err
	}
	var conf struct {
		Runtimes map[string]json.RawMessage `json:"runtimes"`
	}
	if err := json.Unmarshal(f.Before, &conf); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	var out []Runtime
	for name, text := range conf.Runtimes {
		var e entry
		if json.Unmarshal(text, &e) != nil {
			continue // not agentjail's: Docker would not start with it
		}
		if r := (Runtime{Name: name, Path: e.program()}); e.leadsTo(p.options, r) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (podman) registered(p *Plan) ([]Runtime, error) {
	_, conf, err := readPodman(p)
	if err != nil {
		return nil, err
	}
	var out []Runtime
	for name, paths := range conf.Engine.Runtimes {
		if len(paths) == 1 {
			out = append(out, Runtime{Name: name, Path: paths[0]})
		}
	}
	return out, nil
}

func (containerd) registered(p *Plan) ([]Runtime, error) {
	var out []Runtime
	for _, path := range []string{p.options.Config, p.options.DropIn} {
		f, err := p.toml(path)
		if err != nil {
			return nil, err
		}
		version, err := versionOf(f.doc, path)
		if err != nil {
			continue // there is nothing of ours in it
		}
		names, _ := at(f.doc, runtimesPath(version)...).(map[string]any)
		for name := range names {
			if h, _, ok := handlerAt(f.doc, version, name); ok {
				out = append(out, Runtime{Name: name, Path: h.Options.BinaryName})
			}
		}
	}
	return out, nil
}
