package policy

import (
	"reflect"
	"strings"
	"testing"
)

// TestHash: a policy's hash follows its content alone.
func TestHash(t *testing.T) {
	p := Default()
	first := p.Hash()
	if !strings.HasPrefix(first, "sha256:") || len(first) != len("sha256:")+64 {
		t.Fatalf("%q is no hash", first)
	}
	p.Origin = &Origin{Path: "/elsewhere", Name: "net"}
	if got := p.Hash(); got != first {
		t.Errorf("the place of a policy changes its hash: %s, %s", first, got)
	}
	if p.Origin == nil {
		t.Error("hashing takes the policy's origin away")
	}
	p.Limits.Pids--
	if p.Hash() == first {
		t.Error("another limit has the same hash")
	}
}

// TestHashSeesEveryKey: no field is left out of the JSON but those that state where a policy came from.
func TestHashSeesEveryKey(t *testing.T) {
	var walk func(t reflect.Type, path string) []string
	walk = func(typ reflect.Type, path string) (out []string) {
		for f := range typ.Fields() {
			if f.Tag.Get("json") == "-" || f.Tag.Get("json") == "" && f.IsExported() && !f.Anonymous {
				out = append(out, path+f.Name)
			}
			if f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == typ.PkgPath() {
				out = append(out, walk(f.Type, path+f.Name+".")...)
			}
		}
		return out
	}
	if missing := walk(reflect.TypeFor[Policy](), ""); len(missing) > 0 {
		t.Errorf("the hash does not see %v", missing)
	}
}
