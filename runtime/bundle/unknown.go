package bundle

import (
	"bytes"
	"encoding/json"
	"reflect"
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
// has dropped or added others.
type elem struct {
	id map[string]string
	u  *Unknown
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
	return out
}

// Without returns a copy that has nothing below the top-level fields named.
func (u *Unknown) Without(names ...string) *Unknown {
	if u == nil {
		return nil
	}
	out := &Unknown{fields: u.fields, below: map[string]*Unknown{}, elems: map[string][]elem{}}
	drop := map[string]bool{}
	for _, n := range names {
		drop[n] = true
	}
	for k, v := range u.below {
		if !drop[k] {
			out.below[k] = v
		}
	}
	for k, v := range u.elems {
		if !drop[k] {
			out.elems[k] = v
		}
	}
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
	return diff(raw, reflect.TypeOf(v)), nil
}

// diff walks raw beside the type that it was decoded into.
func diff(raw map[string]any, t reflect.Type) *Unknown {
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
		return nil
	}
	for k, v := range raw {
		ft := t
		if fields != nil {
			// encoding/json matches names without regard to case, and so does
			// runc's decoder: a "Process" beside "process" is the same field,
			// and must not come back behind the hardened one.
			known, ok := fields[strings.ToLower(k)]
			if !ok {
				get().fields[k] = v
				continue
			}
			ft = deref(known)
		} else {
			ft = deref(t.Elem())
		}
		switch v := v.(type) {
		case map[string]any:
			if d := diff(v, ft); d != nil {
				get().below[k] = d
			}
		case []any:
			if ft.Kind() != reflect.Slice {
				continue
			}
			for _, e := range v {
				m, ok := e.(map[string]any)
				if !ok {
					continue
				}
				if d := diff(m, ft.Elem()); d != nil {
					if id := identity(m); id != nil {
						get().elems[k] = append(get().elems[k], elem{id, d})
					}
				}
			}
		}
	}
	return u
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
		for _, e := range es {
			for _, h := range list {
				if m, ok := h.(map[string]any); ok && sameElem(m, e.id) {
					e.u.mergeInto(m)
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

type fieldMap map[string]reflect.Type

var fieldCache sync.Map // reflect.Type -> fieldMap

// fieldsOf lists a struct's JSON names in lower case.
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
		out[strings.ToLower(name)] = f.Type
	}
	fieldCache.Store(t, out)
	return out
}
