package install

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
)

// CRIO is CRI-O. It gets a drop-in file of agentjail's own, which it reads at start and on a
// reload.
var CRIO Engine = crio{}

type crio struct{}

func (crio) Name() string  { return "crio" }
func (crio) Title() string { return "CRI-O" }

// Defaults has the drop-in for CRI-O (crio.conf.d(5)): files of that directory are read after
// crio.conf, in the order of names, and of two handlers of one name the later is taken whole.
func (crio) Defaults() Options {
	return Options{
		Runtimes: []Runtime{{Name: DefaultName}, {Name: DefaultName + "-net"}},
		DropIn:   "/etc/crio/crio.conf.d/agentjail.conf",
	}
}

// reserved reports whether a name is one of a handler that CRI-O's own configuration has.
func (crio) reserved(name string) bool { return name == "runc" || name == "crun" }

// plan writes the drop-in again with or without the handlers. It is an errConflict if the file is
// not of this program's making, or if another file of the configuration has a handler of the name.
// The file goes with its last handler.
func (crio) plan(p *Plan) error {
	o := p.options
	f, have, err := readCRIO(p)
	if err != nil || o.Undo && !f.exists {
		return err
	}
	p.live = reloaded{}
	for _, r := range o.Runtimes {
		if err := have.set(o, r); err != nil {
			return err
		}
	}
	if !o.Undo {
		if err := otherHandlers(o); err != nil {
			return err
		}
	}
	f.Remove = len(have.handlers()) == 0
	f.After, err = have.render()
	return err
}

// reloaded is a CRI-O: it reads its configuration when it starts, and its table of runtimes at
// SIGHUP as well (crio.conf(5)).
type reloaded struct{ noDaemon }

func (reloaded) settle(_ context.Context, _ *Plan, r *Result) error {
	if r.Changed {
		r.Messages = append(r.Messages, "CRI-O reads it at start and on a reload: systemctl reload crio")
	}
	return nil
}

// crioHandler is what CRI-O has to know of a runtime (pkg/config, RuntimeHandler). Annotations that
// have CRI-O add to a container devices, files of its control group and the like are allowed by a
// list, which is empty here.
type crioHandler struct {
	Path    string `toml:"runtime_path"`
	Type    string `toml:"runtime_type"`
	Root    string `toml:"runtime_root"`                    // where the delegate keeps the state of containers
	Devices bool   `toml:"privileged_without_host_devices"` // a privileged pod does not get those of the node
}

// crioRoot is a directory of its own: CRI-O's default is that of the runtime that it was built for,
// which may read what it finds there.
const crioRoot = "/run/crio/agentjail"

func crioHandlerOf(r Runtime) crioHandler {
	return crioHandler{Path: r.Path, Type: "oci", Root: crioRoot, Devices: true}
}

// crioConf is the content of the drop-in.
type crioConf struct {
	CRIO struct {
		Runtime struct {
			Runtimes map[string]crioHandler `toml:"runtimes"`
		} `toml:"runtime"`
	} `toml:"crio"`
}

func (c *crioConf) handlers() map[string]crioHandler { return c.CRIO.Runtime.Runtimes }

// set adds a handler, or takes it out.
func (c *crioConf) set(o Options, r Runtime) error {
	if h, ok := c.handlers()[r.Name]; ok && h.Path != r.Path && !o.Force {
		return fmt.Errorf("%s: runtime %s leads to %s, not to %s: %w", o.DropIn, r.Name, h.Path, r.Path, errConflict)
	}
	if o.Undo {
		delete(c.handlers(), r.Name)
	} else {
		c.handlers()[r.Name] = crioHandlerOf(r)
	}
	return nil
}

const crioHead = "# Written by `agentjail install crio`.\n"

// readCRIO reads the drop-in, which must be as render writes it.
func readCRIO(p *Plan) (*File, *crioConf, error) {
	c := new(crioConf)
	f, err := p.ownDropIn("crio", c, c.render)
	if c.handlers() == nil {
		c.CRIO.Runtime.Runtimes = map[string]crioHandler{}
	}
	return f, c, err
}

// render writes the drop-in.
func (c *crioConf) render() ([]byte, error) {
	if len(c.handlers()) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	b.WriteString(crioHead)
	for i, name := range slices.Sorted(maps.Keys(c.handlers())) {
		if i > 0 {
			b.WriteString("\n")
		}
		h := c.handlers()[name]
		fmt.Fprintf(&b, "[crio.runtime.runtimes.%s]\nruntime_path = %s\nruntime_type = %s\nruntime_root = %s\nprivileged_without_host_devices = %v\n",
			tomlKey(name), quoted(h.Path), quoted(h.Type), quoted(h.Root), h.Devices)
	}
	if _, err := readTOML(b.Bytes()); err != nil {
		return nil, fmt.Errorf("the drop-in for CRI-O: %w", err)
	}
	return b.Bytes(), nil
}

// otherHandlers refuses a name that another file of the configuration has, whose owner chose it.
// A file that is read later wins, whatever the drop-in has.
func otherHandlers(o Options) error {
	return checkOtherFiles(o.DropIn, func(file string, c *crioConf) error {
		for _, r := range o.Runtimes {
			if h, ok := c.handlers()[r.Name]; ok && (readLater(file, o.DropIn) || h.Path != r.Path && !o.Force) {
				return fmt.Errorf("%s has a runtime %s, which leads to %s: %w", file, r.Name, h.Path, errConflict)
			}
		}
		return nil
	})
}

func (crio) registered(p *Plan) ([]Runtime, error) {
	_, conf, err := readCRIO(p)
	if err != nil {
		return nil, err
	}
	var out []Runtime
	for name, h := range conf.handlers() {
		out = append(out, Runtime{Name: name, Path: h.Path})
	}
	return out, nil
}
