// Package bundle reads and writes OCI bundles. Input is hostile: sizes are bounded, and unknown
// fields are reported and left out.
package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// ConfigName is the spec's file name within a bundle (OCI runtime-spec,
// bundle.md).
const ConfigName = "config.json"

// MaxConfig bounds config.json in bytes; engines write some tens of thousands.
const MaxConfig = 8 << 20

// Bundle is an OCI bundle with its spec.
type Bundle struct {
	Dir  string // absolute
	Spec *specs.Spec
	// Unknown lists the fields of config.json that the specification's Go types
	// do not have, as dotted paths. They are not written again.
	Unknown []string
	// Saved is the text that Save has written.
	Saved []byte
}

// Load reads DIR/config.json.
func Load(dir string) (*Bundle, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", dir, err)
	}
	data, err := atomicfile.Read(filepath.Join(abs, ConfigName), MaxConfig)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("JSON specification file %s not found in bundle %s", ConfigName, abs)
		}
		return nil, err
	}
	b := &Bundle{Dir: abs, Spec: new(specs.Spec)}
	if b.Unknown, err = Decode(data, b.Spec); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(abs, ConfigName), err)
	}
	return b, nil
}

// Path returns a path of the bundle in dir, which may be relative to it (runtime-spec, config.md).
func Path(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// Decode reads one JSON document into v, which is a pointer to a struct, and
// returns the fields that v's type does not have.
func Decode(data []byte, v any) ([]string, error) {
	alike, err := scan(data)
	if err != nil {
		return nil, err
	}
	// Most bundles have no unknown field, which the decoder itself can establish.
	if strict := reflect.New(reflect.TypeOf(v).Elem()); !alike && decodeKnown(data, strict.Interface()) {
		reflect.ValueOf(v).Elem().Set(strict.Elem())
		return nil, nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, jsonError(err)
	}
	return unknownFields(data, v)
}

// decodeKnown is decodeStrict, or decodeSpec where v is a spec.
func decodeKnown(data []byte, v any) bool {
	if s, ok := v.(*specs.Spec); ok {
		return decodeSpec(data, s)
	}
	return decodeStrict(data, v)
}

// decodeStrict reports whether data is one document and v has each of its fields.
func decodeStrict(data []byte, v any) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if dec.Decode(v) != nil {
		return false
	}
	_, err := dec.Token()
	return err == io.EOF
}

// jsonError names the field for wrong types and the place for everything else,
// as the decoder's own text does not always.
func jsonError(err error) error {
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if te.Field == "" {
			return fmt.Errorf("is a JSON %s, not an object", te.Value)
		}
		return fmt.Errorf("field %s cannot be a %s", clip(te.Field), clip(te.Value))
	}
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON at byte %d: %w", se.Offset, err)
	}
	return err
}

// Save writes the spec to DIR/config.json with mode 0600, replacing it in one
// step.
func (b *Bundle) Save() error {
	data, err := encodeSpec(b.Spec)
	if err != nil {
		return fmt.Errorf("encoding the spec: %w", err)
	}
	b.Saved = data
	return atomicfile.Write(filepath.Join(b.Dir, ConfigName), data, 0o600)
}
