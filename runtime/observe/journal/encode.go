package journal

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"
)

// encode appends the event as JSON, as encoding/json has it but for what that escapes without need.
// Every verb of an engine is a process of its own that appends a line or two: encoding/json would
// first compile an encoder for the type, which takes ten times as long.
func (e *Event) encode(b []byte) []byte { return appendJSON(b, reflect.ValueOf(e)) }

// appendJSON appends a value of a field. The types are few and plain: strings, numbers, flags,
// lists and structs of these, and a Kind.
func appendJSON(b []byte, v reflect.Value) []byte {
	if v.Type() == reflect.TypeFor[Kind]() {
		return quote(b, Kind(v.Uint()).String())
	}
	switch v.Kind() {
	case reflect.String:
		return quote(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.Float64:
		return strconv.AppendFloat(b, v.Float(), 'f', -1, 64)
	case reflect.Pointer, reflect.Interface:
		return appendJSON(b, v.Elem()) // nil is left out
	case reflect.Slice, reflect.Array:
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, v.Index(i))
		}
		return append(b, ']')
	case reflect.Struct:
		b = append(b, '{')
		b = bytes.TrimSuffix(appendFields(b, v), []byte(","))
		return append(b, '}')
	}
	if v.CanUint() {
		return strconv.AppendUint(b, v.Uint(), 10)
	}
	return strconv.AppendInt(b, v.Int(), 10)
}

// appendFields appends the fields of a struct, each with a comma behind it.
func appendFields(b []byte, v reflect.Value) []byte {
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		if f.Anonymous {
			b = appendFields(b, value)
			continue
		}
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if option == "omitempty" && (value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0) {
			continue
		}
		b = append(append(append(b, '"'), name...), `":`...)
		b = append(appendJSON(b, value), ',')
	}
	return b
}

// quote writes text that Clean has made printable.
func quote(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// seqOf is the number in a line of ours; 0 is none.
func seqOf(line []byte) uint64 {
	rest, ok := bytes.CutPrefix(line, []byte(`{"v":`))
	if !ok || len(line) > maxLine || line[len(line)-1] != '}' {
		return 0
	}
	_, rest, _ = bytes.Cut(rest, []byte(`,"seq":`))
	digits, _, ok := bytes.Cut(rest, []byte(","))
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil || !ok {
		return 0
	}
	return n
}
