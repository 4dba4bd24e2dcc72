package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Unknown holds the fields of a JSON object that its Go type does not have, and
// those of the objects below it.
type Unknown struct {
	fields map[string]any      // unknown on this level, whole
	below  map[string]*Unknown // known objects with something unknown inside
	elems  map[string][]elem   // known lists of such objects
}

// elem is an element of a list, found again by its identity after hardening
// has dropped or added others; one that has none by its place, if the list is
// as long as it was.
type elem struct {
	id     map[string]string
	at, of int
	u      *Unknown
}

// elemKeys make up an element's identity; they are the specification's own
// keys for its lists (mounts, devices, namespaces, rlimits).
var elemKeys = []string{"destination", "path", "type"}

// Paths lists the unknown fields as dotted paths.
func (u *Unknown) Paths() []string {
	if u == nil {
		return nil
	}
	var out []string
	for k := range u.fields {
		out = append(out, k)
	}
	for k, b := range u.below {
		for _, p := range b.Paths() {
			out = append(out, k+"."+p)
		}
	}
	for k, es := range u.elems {
		for _, e := range es {
			for _, p := range e.u.Paths() {
				out = append(out, k+"[]."+p)
			}
		}
	}
	slices.Sort(out)
	return out
}

// unknownFields returns what data has and the type of v has not, or nil.
func unknownFields(data []byte, v any) (*Unknown, error) {
	var raw map[string]any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&raw); err != nil {
		return nil, err
	}
	return diff(raw, reflect.TypeOf(v))
}

// diff walks raw beside the type that it was decoded into.
func diff(raw map[string]any, t reflect.Type) (*Unknown, error) {
	t = deref(t)
	var u *Unknown
	get := func() *Unknown {
		if u == nil {
			u = &Unknown{fields: map[string]any{}, below: map[string]*Unknown{}, elems: map[string][]elem{}}
		}
		return u
	}
	var fields fieldMap
	switch t.Kind() {
	case reflect.Struct:
		fields = fieldsOf(t)
	case reflect.Map:
	default:
		return nil, nil
	}
	seen := map[string]string{}
	for k, v := range raw {
		name, ft := k, t
		if fields != nil {
			// encoding/json matches names without regard to case, and so does
			// runc's decoder: a "Process" beside "process" is the same field,
			// and must not come back behind the hardened one.
			known, ok := fields[fold(k)]
			if !ok {
				get().fields[k] = v
				continue
			}
			if other, twice := seen[known.name]; twice {
				return nil, fmt.Errorf("has the field %s twice, as %q and %q", known.name, min(k, other), max(k, other))
			}
			seen[known.name] = k
			name, ft = known.name, deref(known.t)
		} else {
			ft = deref(t.Elem())
		}
		switch v := v.(type) {
		case map[string]any:
			d, err := diff(v, ft)
			if err != nil {
				return nil, err
			}
			if d != nil {
				get().below[name] = d
			}
		case []any:
			if ft.Kind() != reflect.Slice {
				continue
			}
			for i, e := range v {
				m, ok := e.(map[string]any)
				if !ok {
					continue
				}
				d, err := diff(m, ft.Elem())
				if err != nil {
					return nil, err
				}
				if d != nil {
					get().elems[name] = append(get().elems[name], elem{identity(m), i, len(v), d})
				}
			}
		}
	}
	return u, nil
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func identity(m map[string]any) map[string]string {
	var id map[string]string
	for _, k := range elemKeys {
		if s, ok := m[k].(string); ok {
			if id == nil {
				id = map[string]string{}
			}
			id[k] = s
		}
	}
	return id
}

// mergeInto puts the unknown fields into out, the JSON of the known ones. What
// hardening removed stays removed with all that was below it.
func (u *Unknown) mergeInto(out map[string]any) {
	for k, v := range u.fields {
		if _, taken := out[k]; !taken {
			out[k] = v
		}
	}
	for k, b := range u.below {
		if m, ok := out[k].(map[string]any); ok {
			b.mergeInto(m)
		}
	}
	for k, es := range u.elems {
		list, _ := out[k].([]any)
		used := map[int]bool{}
		for _, e := range es {
			for i, h := range list {
				m, ok := h.(map[string]any)
				if ok && !used[i] && (e.id != nil && sameElem(m, e.id) || e.id == nil && i == e.at && len(list) == e.of) {
					e.u.mergeInto(m)
					used[i] = true
					break
				}
			}
		}
	}
}

func sameElem(m map[string]any, id map[string]string) bool {
	for k, v := range id {
		if m[k] != v {
			return false
		}
	}
	return true
}

// fieldMap has a struct's fields by their folded names.
type fieldMap map[string]field

type field struct {
	name string // as the specification writes it
	t    reflect.Type
}

var fieldCache sync.Map // reflect.Type -> fieldMap

// fieldsOf lists the JSON names of a struct.
func fieldsOf(t reflect.Type) fieldMap {
	if f, ok := fieldCache.Load(t); ok {
		return f.(fieldMap)
	}
	out := fieldMap{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if f.Anonymous && name == "" {
			for k, v := range fieldsOf(deref(f.Type)) {
				out[k] = v
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		out[fold(name)] = field{name, f.Type}
	}
	fieldCache.Store(t, out)
	return out
}
