package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// unknownFields lists, as dotted paths, the fields of data that the type of v does not have. They
// are left out of the written bundle: a delegate made for a newer specification could take such a
// field for a privilege that agentjail never judged.
func unknownFields(data []byte, v any) ([]string, error) {
	var raw map[string]any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&raw); err != nil {
		return nil, err
	}
	var out []string
	if err := diff(raw, reflect.TypeOf(v), "", &out); err != nil {
		return nil, err
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// diff walks raw beside the type that it was decoded into.
func diff(raw map[string]any, t reflect.Type, at string, out *[]string) error {
	t = deref(t)
	var fields fieldMap
	switch t.Kind() {
	case reflect.Struct:
		fields = fieldsOf(t)
	case reflect.Map:
	default:
		return nil
	}
	seen := map[string]string{}
	for k, v := range raw {
		name, ft := k, t
		if fields != nil {
			// encoding/json matches names without regard to case, and so does
			// runc's decoder: a "Process" beside "process" is the same field.
			known, ok := fields[fold(k)]
			if !ok {
				*out = append(*out, at+k)
				continue
			}
			if other, twice := seen[known.name]; twice {
				return fmt.Errorf("has the field %s twice, as %q and %q", known.name, min(k, other), max(k, other))
			}
			seen[known.name] = k
			name, ft = known.name, deref(known.t)
		} else {
			ft = deref(t.Elem())
		}
		switch v := v.(type) {
		case map[string]any:
			if err := diff(v, ft, at+name+".", out); err != nil {
				return err
			}
		case []any:
			if ft.Kind() != reflect.Slice {
				continue
			}
			for _, e := range v {
				if m, ok := e.(map[string]any); ok {
					if err := diff(m, ft.Elem(), at+name+"[].", out); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
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
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if f.Anonymous && name == "" {
			maps.Copy(out, fieldsOf(deref(f.Type)))
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
