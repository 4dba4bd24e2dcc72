package policy

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/xrash/smetrics"

	"agentjail.dev/runtime/kernel/idmap"
)

// decode reads a policy file into to, on top of the values that to has. Unknown keys are errors.
func decode(data []byte, to any) error {
	return tomlError(strictly(data, to), nil)
}

// decodeNamed is decode for the table [policies.NAME] alone, into p. It decodes the whole file,
// so that errors have the file's line numbers; what other tables hold is not looked at.
func decodeNamed(data []byte, name string, p *Policy) error {
	tables := reflect.StructOf([]reflect.StructField{{
		Name: "Named", Type: reflect.TypeFor[Policy](), Tag: reflect.StructTag("toml:" + strconv.Quote(name)),
	}})
	file := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "Policies", Type: tables, Tag: `toml:"policies"`}}))
	named := file.Elem().Field(0).Field(0)
	named.Set(reflect.ValueOf(*p))
	if err := tomlError(strictly(data, file.Interface()), []string{"policies", name}); err != nil {
		return err
	}
	*p = named.Interface().(Policy)
	return nil
}

func strictly(data []byte, to any) error {
	dec := toml.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(to)
}

// tomlError turns the decoder's errors into one line that has the place of each. Of unknown keys
// it reports those below the table within.
func tomlError(err error, within []string) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) {
		var lines []string
		for _, e := range strict.Errors {
			key := []string(e.Key())
			if len(key) <= len(within) || !slices.Equal(key[:len(within)], within) {
				continue
			}
			row, _ := e.Position()
			name := strings.Join(key[len(within):], ".")
			lines = append(lines, fmt.Sprintf("line %d: unknown key %q%s", row, name, suggestion(name, keys(reflect.TypeFor[Policy](), ""))))
		}
		if lines == nil {
			return nil
		}
		return errors.New(strings.Join(lines, "; "))
	}
	var de *toml.DecodeError
	if errors.As(err, &de) {
		row, col := de.Position()
		text := strings.TrimPrefix(de.Error(), "toml: ")
		// The decoder goes on with the names of Go types.
		if what, goType, ok := strings.Cut(strings.TrimPrefix(text, "cannot decode TOML "), " into "); ok {
			text = "this cannot be a TOML " + what + expected(goType)
		}
		return fmt.Errorf("line %d, column %d: %s", row, col, text)
	}
	return err
}

// expected names the TOML type of a Go field, by the end of the decoder's text.
func expected(goType string) string {
	for suffix, name := range map[string]string{
		" of type bool": "true or false", " of type string": "a string", " of type int64": "a whole number",
		" of type float64": "a number", " of type []string": "a list of strings",
	} {
		if strings.HasSuffix(goType, suffix) {
			return ", but " + name
		}
	}
	return ""
}

// keys lists the keys of a struct of settings, with dots.
func keys(t reflect.Type, prefix string) []string {
	var out []string
	for f := range t.Fields() {
		name := f.Tag.Get("toml")
		switch {
		case name == "-":
		case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[idmap.Pool]():
			out = append(out, keys(f.Type, prefix+name+".")...)
		default:
			out = append(out, prefix+name)
		}
	}
	return out
}

// suggestion is the end of an error about an unknown name: the known one that is most like it,
// or nothing where none is near.
func suggestion(name string, known []string) string {
	best, least := "", min(4, 1+len(name)/3)
	for _, k := range slices.Sorted(slices.Values(known)) {
		// The last part of a key may be all that was written.
		short := k[strings.LastIndexByte(k, '.')+1:]
		d := min(smetrics.WagnerFischer(name, k, 1, 1, 1), 1+smetrics.WagnerFischer(name, short, 1, 1, 1))
		if d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}
