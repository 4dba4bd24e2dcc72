package bundle

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// full is a value of a type with something in every field: pointers set, lists
// and maps with n elements.
func full(t reflect.Type, n int, seed *int) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Pointer:
		p := reflect.New(t.Elem())
		p.Elem().Set(full(t.Elem(), n, seed))
		v.Set(p)
	case reflect.Struct:
		for i := range t.NumField() {
			v.Field(i).Set(full(t.Field(i).Type, n, seed))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			v.Index(i).Set(full(t.Elem(), n, seed))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		for range n {
			v.SetMapIndex(full(t.Key(), n, seed), full(t.Elem(), n, seed))
		}
	case reflect.String:
		*seed++
		v.SetString(fmt.Sprint("s", *seed))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		*seed++
		v.SetInt(int64(*seed))
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		*seed++
		v.SetUint(uint64(*seed))
	}
	return v
}

// objects calls f for every JSON object that is a struct in Go, with the path
// to it.
func objects(raw any, t reflect.Type, at string, f func(map[string]any, string)) {
	t = deref(t)
	switch raw := raw.(type) {
	case map[string]any:
		switch t.Kind() {
		case reflect.Struct:
			for _, fd := range fieldsOf(t) {
				if sub, ok := raw[fd.name]; ok {
					objects(sub, fd.t, at+"."+fd.name, f)
				}
			}
			f(raw, at)
		case reflect.Map:
			for k, sub := range raw {
				objects(sub, t.Elem(), at+"."+k, f)
			}
		}
	case []any:
		for i, sub := range raw {
			objects(sub, t.Elem(), fmt.Sprintf("%s[%d]", at, i), f)
		}
	}
}

func rawSpec(t *testing.T, n int) (map[string]any, reflect.Type) {
	t.Helper()
	seed := 0
	typ := reflect.TypeFor[specs.Spec]()
	data, err := json.Marshal(full(typ, n, &seed).Interface())
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	return raw, typ
}

// TestUnknownDropped puts an unknown field into every object of the
// specification: each is named, and none comes out again.
func TestUnknownDropped(t *testing.T) {
	for _, n := range []int{1, 3} {
		raw, typ := rawSpec(t, n)
		plain, err := json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		objects(raw, typ, "", func(o map[string]any, at string) {
			o["xFuture"] = map[string]any{"mark": at}
			want[strings.TrimPrefix(elements.ReplaceAllString(at, "[]")+".xFuture", ".")] = true
		})
		if len(want) < 60 {
			t.Fatalf("only %d objects were found in the specification", len(want))
		}
		data, err := json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		var s, known specs.Spec
		u, err := Decode(data, &s)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range u {
			if !want[p] {
				t.Errorf("%s is named, and is not there", p)
			}
		}
		if len(u) != len(want) {
			t.Errorf("%d paths for %d unknown fields", len(u), len(want))
		}
		if _, err := Decode(plain, &known); err != nil || !reflect.DeepEqual(s, known) {
			t.Errorf("what is known has changed: %v", err)
		}
	}
}

// elements are the indexes of lists in a path.
var elements = regexp.MustCompile(`\[\d+\]`)

// TestUnknownOtherCase writes every known field of the specification in other
// letters: none of them comes back as a second member beside the known one.
func TestUnknownOtherCase(t *testing.T) {
	for _, other := range []func(string) string{
		strings.ToUpper,
		func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
		func(s string) string { return strings.NewReplacer("s", "ſ", "k", "K").Replace(s) },
	} {
		raw, typ := rawSpec(t, 1)
		data, err := json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		var plain specs.Spec
		if _, err := Decode(data, &plain); err != nil {
			t.Fatal(err)
		}
		fields := 0
		objects(raw, typ, "", func(o map[string]any, at string) {
			for k, v := range o {
				if c := other(k); c != k && !strings.HasPrefix(k, "xDone") {
					delete(o, k)
					o[c] = v
					fields++
				}
			}
		})
		if fields < 100 {
			t.Fatalf("only %d fields were renamed", fields)
		}
		data, err = json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		var s specs.Spec
		u, err := Decode(data, &s)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s, plain) {
			t.Error("the decoder does not take the names without regard to case")
		}
		if len(u) > 0 {
			t.Errorf("known fields in other letters count as unknown: %v", u)
		}
	}
}

// FuzzDecode: no input makes it panic, and what it reads it writes and reads
// again as the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"x": [1, {"a": null}], "Process": {"y": 1}, "mounts": [{"destination": "/a", "z": {}}]}`))
	f.Add([]byte(`{"annotations": {"a": "b"}, "linux": {"seccomp": {"syscalls": [{"names": ["a"], "x": 1}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s specs.Spec
		if _, err := Decode(data, &s); err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		out, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		var again specs.Spec
		if u, err := Decode(out, &again); err != nil || len(u) > 0 {
			t.Fatalf("%v, with %v unknown, of what was written from %q: %q", err, u, data, out)
		}
		third, err := json.Marshal(&again)
		if err != nil {
			t.Fatal(err)
		}
		if string(third) != string(out) {
			t.Errorf("%q is written as %q, then as %q", data, out, third)
		}
	})
}
