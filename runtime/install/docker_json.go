package install

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// entry is a runtime as Docker accepts it: a program of runc's kind, or since Docker 24 a shim and
// its options.
type entry struct {
	Path    string         `json:"path"`
	Args    []string       `json:"runtimeArgs"`
	Type    string         `json:"runtimeType"`
	Options map[string]any `json:"options"`
}

// entryOf is the entry that agentjail writes for a runtime.
func entryOf(o Options, r Runtime) entry {
	if o.By != ByShim {
		return entry{Path: r.Path}
	}
	e := entry{Type: o.Shim}
	if p := policyOf(r.Path); p != "" {
		e.Options = map[string]any{"TypeUrl": DefaultName, "ConfigPath": p}
	}
	return e
}

// policyOf is the named policy that a program's name selects, "" for none.
func policyOf(program string) string {
	if p, ok := strings.CutPrefix(filepath.Base(program), DefaultName+"-"); ok {
		return p
	}
	return ""
}

// leadsTo reports whether an entry is one that agentjail writes for a runtime, in whichever way.
func (e entry) leadsTo(o Options, r Runtime) bool {
	return slices.ContainsFunc([]By{ByPath, ByShim}, func(by By) bool {
		o.By = by
		return e.equal(entryOf(o, r))
	})
}

func (e entry) equal(x entry) bool {
	return e.Path == x.Path && len(e.Args) == 0 && e.Type == x.Type && maps.Equal(e.Options, x.Options)
}

// program is agentjail's that an entry leads to, if it does: by its path, or beside its shim.
func (e entry) program() string {
	if e.Type == "" {
		return e.Path
	}
	name := DefaultName
	if p, ok := e.Options["ConfigPath"].(string); ok {
		name += "-" + p
	}
	return filepath.Join(filepath.Dir(e.Type), name)
}

// render is the entry as text.
func (e entry) render(l layout, indent string) hujson.ValueTrimmed {
	if e.Type == "" {
		return l.wrap(indent, l.member("path", hujson.String(e.Path)))
	}
	members := []hujson.ObjectMember{l.member("runtimeType", hujson.String(e.Type))}
	if len(e.Options) > 0 {
		var options []hujson.ObjectMember
		for _, key := range slices.Sorted(maps.Keys(e.Options)) {
			options = append(options, l.member(key, hujson.String(e.Options[key].(string))))
		}
		members = append(members, l.member("options", l.wrap(indent+l.unit, options...)))
	}
	return l.wrap(indent, members...)
}

func (e entry) String() string {
	switch {
	case e.Type != "":
		return "type " + e.Type
	case len(e.Args) > 0:
		return e.Path + " with arguments " + strings.Join(e.Args, " ")
	}
	return e.Path
}

func entryAt(name string, v *hujson.Value) (entry, error) {
	var e entry
	if err := json.Unmarshal(text(v), &e); err != nil {
		return e, fmt.Errorf("runtime %s: %w", name, err)
	}
	return e, nil
}

const (
	keyRuntimes = "runtimes"
	keyDefault  = "default-runtime"
)

// runtimes finds the object of the runtimes. null is as good as none (Docker 20.10 crashes on it).
func (d *document) runtimes() (object, bool, error) {
	top := d.top()
	i := top.index(keyRuntimes)
	if i < 0 || string(text(&top.Members[i].Value)) == "null" {
		return object{}, false, nil
	}
	o, ok := top.Members[i].Value.Value.(*hujson.Object)
	if !ok {
		return object{}, false, fmt.Errorf("%q is not an object", keyRuntimes)
	}
	return object{o, top.memberIndent(i)}, true, unique(o)
}

func (d *document) defaultRuntime() (string, error) {
	v := d.top().find(keyDefault)
	if v == nil {
		return "", nil
	}
	var name string
	if err := json.Unmarshal(text(v), &name); err != nil {
		return "", fmt.Errorf("%q: %w", keyDefault, err)
	}
	return name, nil
}

// pidFileOf returns dockerd's own setting "pidfile" from its configuration, "" for none.
func pidFileOf(config []byte) string {
	d, err := parse(config)
	if err != nil {
		return "" // register reports it
	}
	var path string
	if v := d.top().find("pidfile"); v == nil || json.Unmarshal(text(v), &path) != nil || !filepath.IsAbs(path) {
		return ""
	}
	return path
}

// register returns the text with the entries added.
func register(before []byte, o Options) ([]byte, error) {
	d, err := parse(before)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, r := range o.Runtimes {
		did, err := d.addRuntime(o, r)
		if err != nil {
			return nil, err
		}
		changed = changed || did
	}
	if o.Default != "" {
		have, err := d.defaultRuntime()
		if err != nil {
			return nil, err
		}
		if have != o.Default {
			if have != "" && have != "runc" && !o.Force {
				return nil, fmt.Errorf("the default runtime is %s: %w", have, errConflict)
			}
			put(d.top(), d.layout, keyDefault, func(layout, string) hujson.ValueTrimmed { return hujson.String(o.Default) })
			changed = true
		}
	}
	if !changed {
		return before, nil
	}
	return d.checked()
}

// checked is the text after an edit, which must be one that parse takes.
func (d *document) checked() ([]byte, error) {
	out := d.bytes()
	if _, err := parse(out); err != nil {
		return nil, fmt.Errorf("after the edit: %w", err)
	}
	return out, nil
}

// addRuntime adds an entry, and reports whether it was not there.
func (d *document) addRuntime(o Options, r Runtime) (bool, error) {
	runtimes, ok, err := d.runtimes()
	if err != nil {
		return false, err
	}
	wanted := entryOf(o, r)
	if !ok {
		put(d.top(), d.layout, keyRuntimes, func(l layout, indent string) hujson.ValueTrimmed {
			return l.wrap(indent, l.member(r.Name, wanted.render(l, indent+l.unit)))
		})
		return true, nil
	}
	if v := runtimes.find(r.Name); v != nil {
		e, err := entryAt(r.Name, v)
		switch {
		case err == nil && e.equal(wanted):
			return false, nil
		case o.Force, err == nil && e.leadsTo(o, r):
		case err != nil:
			return false, err
		default:
			return false, fmt.Errorf("runtime %s leads to %s, not to %s: %w", r.Name, e, wanted, errConflict)
		}
	}
	put(runtimes, d.layout, r.Name, wanted.render)
	return true, nil
}

// unregister returns the text without the entries. interim is the same, but in a form that a
// running daemon follows: Docker keeps what it knew of a key that is gone, until it is restarted;
// it forgets when the key is there and empty.
func unregister(before []byte, o Options) (after, interim []byte, err error) {
	d, err := parse(before)
	if err != nil {
		return nil, nil, err
	}
	runtimes, ok, err := d.runtimes()
	if err != nil {
		return nil, nil, err
	}
	changed := false
	for _, r := range o.Runtimes {
		if !ok || runtimes.find(r.Name) == nil {
			continue
		}
		if e, err := entryAt(r.Name, runtimes.find(r.Name)); !o.Force && err != nil {
			return nil, nil, err
		} else if !o.Force && !e.leadsTo(o, r) {
			return nil, nil, fmt.Errorf("runtime %s leads to %s, not to %s: %w", r.Name, e, r.Path, errConflict)
		}
		remove(runtimes, r.Name)
		changed = true
	}
	name, err := d.defaultRuntime()
	if err != nil {
		return nil, nil, err
	}
	isDefault := slices.ContainsFunc(o.Runtimes, func(r Runtime) bool { return r.Name == name })
	if !changed && !isDefault {
		return before, before, nil
	}
	if isDefault { // Docker would not start with a default runtime that it does not know
		put(d.top(), d.layout, keyDefault, func(layout, string) hujson.ValueTrimmed { return hujson.String("runc") })
	}
	if interim, err = d.checked(); err != nil {
		return nil, nil, err
	}
	if isDefault {
		remove(d.top(), keyDefault)
	}
	if changed && len(runtimes.Members) == 0 {
		remove(d.top(), keyRuntimes)
	}
	after, err = d.checked()
	return after, interim, err
}
