package harden

import (
	"reflect"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestClone: a copy is equal and shares nothing that could be written through.
func TestClone(t *testing.T) {
	s := fill(reflect.TypeFor[specs.Spec]()).Interface().(specs.Spec)
	c := clone(&s)
	if jsonOf(t, c) != jsonOf(t, s) || len(jsonOf(t, c)) < 3000 {
		t.Fatalf("%s", jsonOf(t, c))
	}
	var apart func(a, b reflect.Value, at string)
	apart = func(a, b reflect.Value, at string) {
		switch a.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			if a.IsNil() {
				return
			}
			if a.UnsafePointer() == b.UnsafePointer() {
				t.Errorf("%s is shared", at)
			}
		}
		switch a.Kind() {
		case reflect.Pointer:
			apart(a.Elem(), b.Elem(), at)
		case reflect.Struct:
			for i := range a.NumField() {
				apart(a.Field(i), b.Field(i), at+"."+a.Type().Field(i).Name)
			}
		case reflect.Slice:
			for i := range a.Len() {
				apart(a.Index(i), b.Index(i), at+"[]")
			}
		case reflect.Map:
			for it := a.MapRange(); it.Next(); {
				apart(it.Value(), b.MapIndex(it.Key()), at+"[]")
			}
		}
	}
	apart(reflect.ValueOf(&s), reflect.ValueOf(c), "Spec")
}
