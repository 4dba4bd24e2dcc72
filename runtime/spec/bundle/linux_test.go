package bundle

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// otherSystems are the fields of a spec that linuxSpec does not have.
var otherSystems = []string{"Solaris", "Windows", "VM", "ZOS", "FreeBSD"}

// filled is a spec in which every field states something, but for those of other
// systems.
func filled(t *testing.T) *specs.Spec {
	t.Helper()
	s := new(specs.Spec)
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if slices.Contains(otherSystems, v.Type().Field(i).Name) {
			continue
		}
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]string{"a": "b"}))
		default:
			t.Fatalf("field %s is of a kind that no code fills: %s", v.Type().Field(i).Name, f.Kind())
		}
	}
	return s
}

// A field that the specification gets, and linuxSpec has not, would be lost.
func TestLinuxSpecIsWhole(t *testing.T) {
	s := filled(t)
	want, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := encodeSpec(s)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("written as\n%s, not\n%s (%v)", got, want, err)
	}
	var read, plain specs.Spec
	if err := json.Unmarshal(want, &plain); err != nil {
		t.Fatal(err)
	}
	if unknown, err := Decode(want, &read); err != nil || unknown != nil || !reflect.DeepEqual(read, plain) {
		t.Errorf("read as\n%+v, not\n%+v (unknown %v, %v)", read, plain, unknown, err)
	}
}

func TestOtherSystemsAreKept(t *testing.T) {
	for _, name := range otherSystems {
		s := filled(t)
		f := reflect.ValueOf(s).Elem().FieldByName(name)
		f.Set(reflect.New(f.Type().Elem()))
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := encodeSpec(s); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: written as\n%s, not\n%s (%v)", name, got, want, err)
		}
		var read specs.Spec
		if unknown, err := Decode(want, &read); err != nil || unknown != nil || reflect.ValueOf(read).FieldByName(name).IsNil() {
			t.Errorf("%s: lost in %+v (unknown %v, %v)", name, read, unknown, err)
		}
	}
}
