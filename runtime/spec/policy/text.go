package policy

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"agentjail.dev/runtime/spec/credential"
)

// literal is a value as the file has it.
func literal(v reflect.Value) string {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, _ := m.MarshalText() // neither a size nor a pool fails
		return strconv.Quote(string(text))
	}
	switch v := v.Interface().(type) {
	case string:
		return strconv.Quote(v)
	case float64:
		if text := strconv.FormatFloat(v, 'f', -1, 64); strings.Contains(text, ".") {
			return text
		}
		return strconv.FormatFloat(v, 'f', 1, 64)
	case []string:
		return list(v)
	case credential.Set:
		var out []string
		for _, name := range v.Names() {
			out = append(out, name+" = "+inline(reflect.ValueOf(v[name])))
		}
		return "{" + strings.Join(out, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

func list(all []string) string {
	var out []string
	for _, s := range all {
		out = append(out, strconv.Quote(s))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// inline is a table on one line, without the keys that have no value.
func inline(v reflect.Value) string {
	var out []string
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			out = append(out, v.Type().Field(i).Tag.Get("toml")+" = "+literal(v.Field(i)))
		}
	}
	return "{ " + strings.Join(out, ", ") + " }"
}

// Default is the key's value without a policy file, as a file has it.
func (k Key) Default() string { return literal(valueAt(reflect.ValueOf(Default()), k.Name)) }

// Type names the type of the key's values.
func (k Key) Type() string { return expected(valueAt(reflect.ValueOf(Policy{}), k.Name).Type()) }

// Reference is all keys with their defaults and explanations, as a file could have them.
func Reference() string {
	var out strings.Builder
	table, d := "", reflect.ValueOf(Default())
	for _, k := range Keys {
		if at, _, _ := strings.Cut(k.Name, "."); strings.Contains(k.Name, ".") && at != table {
			table = at
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s = %s # %s\n", k.Name, literal(valueAt(d, k.Name)), k.About)
	}
	return out.String()
}
