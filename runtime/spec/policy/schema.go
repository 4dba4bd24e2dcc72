package policy

import (
	"reflect"
	"strings"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/credential"
)

// object is a JSON Schema, or a part of one.
type object = map[string]any

// Schema is the JSON Schema (2020-12) of a policy file, made of Keys.
func Schema() any {
	keys := func(leave string) object {
		top := table()
		d := reflect.ValueOf(Default())
		for _, k := range Keys {
			if k.Name == leave {
				continue
			}
			at, parts := top, strings.Split(k.Name, ".")
			for _, part := range parts[:len(parts)-1] {
				properties := at["properties"].(object)
				if properties[part] == nil {
					properties[part] = table()
				}
				at = properties[part].(object)
			}
			at["properties"].(object)[parts[len(parts)-1]] = k.schema(valueAt(d, k.Name))
		}
		return top
	}
	out := keys("passthrough")
	out["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	out["title"] = "agentjail's policy file"
	out["$defs"] = object{"policy": keys("")}
	out["properties"].(object)["policies"] = object{
		"type": "object", "description": "Named policies, each over the keys of the file.",
		"additionalProperties": object{"$ref": "#/$defs/policy"},
	}
	return out
}

func table() object {
	return object{"type": "object", "additionalProperties": false, "properties": object{}}
}

func (k Key) schema(v reflect.Value) object {
	out := typeSchema(v.Type())
	out["description"] = k.About
	if k.OneOf != nil {
		out["enum"] = k.OneOf
	}
	out["default"] = v.Interface()
	if out["type"] == "array" && v.Len() == 0 {
		out["default"] = []string{}
	} else if out["type"] == "object" {
		out["default"] = object{}
	}
	return out
}

func typeSchema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[Size]():
		return object{
			"type": []string{"string", "integer"}, "pattern": `^ *[0-9]+(\.[0-9]+)? ?([KkMmGgTtPp]([Ii]?[Bb])?|[Bb])? *$`,
			"minimum": 0,
		}
	case reflect.TypeFor[Span]():
		return object{"type": "string", "pattern": "^[0-9]+[smhdw]$"}
	case reflect.TypeFor[idmap.Pool]():
		return object{"type": "string", "pattern": "^[0-9]+:[0-9]+$"}
	case reflect.TypeFor[credential.Set]():
		spec := table()
		for f := range reflect.TypeFor[credential.Spec]().Fields() {
			spec["properties"].(object)[f.Tag.Get("toml")] = typeSchema(f.Type)
		}
		spec["required"] = []string{"hosts", "from"}
		return object{"type": "object", "additionalProperties": spec}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Slice:
		return object{"type": "array", "items": object{"type": "string"}}
	case reflect.Float64:
		return object{"type": "number", "minimum": 0, "maximum": 1 << 16}
	}
	return object{"type": "integer", "minimum": 0}
}
