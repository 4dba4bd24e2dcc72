package harden

import (
	"reflect"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// clone is a deep copy, so that hardening never writes into its input.
func clone(s *specs.Spec) *specs.Spec {
	return deep(reflect.ValueOf(s)).Interface().(*specs.Spec)
}

func cloneProcess(p *specs.Process) *specs.Process {
	return deep(reflect.ValueOf(p)).Interface().(*specs.Process)
}

func cloneResources(r *specs.LinuxResources) *specs.LinuxResources {
	return deep(reflect.ValueOf(r)).Interface().(*specs.LinuxResources)
}

func deep(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		n := reflect.New(v.Type().Elem())
		n.Elem().Set(deep(v.Elem()))
		return n
	case reflect.Struct:
		n := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			n.Field(i).Set(deep(v.Field(i)))
		}
		return n
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		n := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		if isPlain(v.Type().Elem().Kind()) {
			reflect.Copy(n, v)
			return n
		}
		for i := range v.Len() {
			n.Index(i).Set(deep(v.Index(i)))
		}
		return n
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		n := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			n.SetMapIndex(it.Key(), deep(it.Value()))
		}
		return n
	}
	return v
}

func isPlain(k reflect.Kind) bool { return k <= reflect.Complex128 || k == reflect.String }
