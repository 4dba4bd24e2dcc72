package install

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// entry is what Docker accepts as a runtime. Only an entry with nothing but the path is what agentjail writes.
type entry struct {
	Path string   `json:"path"`
	Args []string `json:"runtimeArgs"`
	Type string   `json:"runtimeType"`
}

func (e entry) is(r Runtime) bool { return e.Path == r.Path && len(e.Args) == 0 && e.Type == "" }

func (e entry) String() string {
	switch {
	case e.Type != "":
		return "type " + e.Type
	case len(e.Args) > 0:
		return e.Path + " with arguments " + strings.Join(e.Args, " ")
	}
	return e.Path
}

func entryAt(text []byte, m member) (entry, error) {
	var e entry
	if err := json.Unmarshal(m.val.of(text), &e); err != nil {
		return e, fmt.Errorf("runtime %s: %w", m.name, err)
	}
	return e, nil
}

const (
	keyRuntimes = "runtimes"
	keyDefault  = "default-runtime"
)

// runtimesOf finds the object of the runtimes. null is as good as none (Docker 20.10 crashes on it).
func runtimesOf(text []byte, top object) (object, bool, error) {
	m, ok := top.find(keyRuntimes)
	if !ok || string(m.val.of(text)) == "null" {
		return object{}, false, nil
	}
	if text[m.val.start] != '{' {
		return object{}, false, fmt.Errorf("%q is not an object", keyRuntimes)
	}
	o, err := objectAt(text, m.val.start)
	return o, true, err
}

func defaultOf(text []byte, top object) (string, error) {
	m, ok := top.find(keyDefault)
	if !ok {
		return "", nil
	}
	var name string
	if err := json.Unmarshal(m.val.of(text), &name); err != nil {
		return "", fmt.Errorf("%q: %w", keyDefault, err)
	}
	return name, nil
}

// register returns the text with the entries added.
func register(text []byte, o Options) ([]byte, error) {
	before := text
	text, top, err := parse(text)
	if err != nil {
		return nil, err
	}
	l := layoutOf(text, top)
	changed := false
	for _, r := range o.Runtimes {
		runtimes, ok, err := runtimesOf(text, top)
		if err != nil {
			return nil, err
		}
		path, _ := json.Marshal(r.Path)
		renderEntry := func(l layout, indent string) string { return l.wrap(indent, `"path"`+l.colon+string(path)) }
		if !ok {
			name, _ := json.Marshal(r.Name)
			text = put(text, top, l, keyRuntimes, func(l layout, indent string) string {
				return l.wrap(indent, string(name)+l.colon+renderEntry(l, indent+l.unit))
			})
			changed = true
		} else {
			if m, ok := runtimes.find(r.Name); ok {
				e, err := entryAt(text, m)
				if err == nil && e.is(r) {
					continue
				}
				if !o.Force {
					if err != nil {
						return nil, err
					}
					return nil, fmt.Errorf("runtime %s leads to %s, not to %s: %w", r.Name, e, r.Path, ErrConflict)
				}
			}
			text = put(text, runtimes, l, r.Name, renderEntry)
			changed = true
		}
		if text, top, err = parse(text); err != nil {
			return nil, fmt.Errorf("after the edit: %w", err)
		}
	}
	if o.Default != "" {
		have, err := defaultOf(text, top)
		if err != nil {
			return nil, err
		}
		if have != o.Default {
			if have != "" && have != "runc" && !o.Force {
				return nil, fmt.Errorf("the default runtime is %s: %w", have, ErrConflict)
			}
			name, _ := json.Marshal(o.Default)
			text = put(text, top, l, keyDefault, func(layout, string) string { return string(name) })
			changed = true
		}
	}
	if !changed {
		return before, nil
	}
	_, _, err = parse(text)
	return text, err
}

// wrap writes an object with one member, on several lines if the document is.
func (l layout) wrap(indent, content string) string {
	if l.newline == "" {
		return "{" + content + "}"
	}
	return "{" + l.newline + indent + l.unit + content + l.newline + indent + "}"
}

// unregister returns the text without the entries. interim is the same, but says so in a way that a running daemon takes to heart:
// Docker keeps what it knew of a key that is gone, until it is restarted; it forgets when the key is there and empty.
func unregister(text []byte, o Options) (after, interim []byte, err error) {
	before := text
	text, top, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	changed := false
	for _, r := range o.Runtimes {
		runtimes, ok, err := runtimesOf(text, top)
		if err != nil {
			return nil, nil, err
		}
		m, there := runtimes.find(r.Name)
		if !ok || !there {
			continue
		}
		if e, err := entryAt(text, m); !o.Force && (err != nil || !e.is(r)) {
			if err != nil {
				return nil, nil, err
			}
			return nil, nil, fmt.Errorf("runtime %s leads to %s, not to %s: %w", r.Name, e, r.Path, ErrConflict)
		}
		text = remove(text, runtimes, r.Name)
		changed = true
		if text, top, err = parse(text); err != nil {
			return nil, nil, fmt.Errorf("after the edit: %w", err)
		}
	}
	name, err := defaultOf(text, top)
	if err != nil {
		return nil, nil, err
	}
	isDefault := slices.ContainsFunc(o.Runtimes, func(r Runtime) bool { return r.Name == name })
	if !changed && !isDefault {
		return before, before, nil
	}
	interim = text
	if isDefault { // Docker would not start with a default runtime that it does not know
		l := layoutOf(text, top)
		interim = put(text, top, l, keyDefault, func(layout, string) string { return `"runc"` })
		text = remove(text, top, keyDefault)
		if text, top, err = parse(text); err != nil {
			return nil, nil, fmt.Errorf("after the edit: %w", err)
		}
	}
	if m, ok := top.find(keyRuntimes); ok && changed && string(m.val.of(text)) == "{}" {
		text = remove(text, top, keyRuntimes)
		if text, _, err = parse(text); err != nil {
			return nil, nil, fmt.Errorf("after the edit: %w", err)
		}
	}
	return text, interim, nil
}
