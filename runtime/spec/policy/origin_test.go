package policy

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"agentjail.dev/runtime/spec/credential"
)

// TestAgain: a policy that is read again is what it was for the same jail, but that a container's list narrows whatever the file states.
func TestAgain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a policy is root's")
	}
	dir, err := os.MkdirTemp("/root", "agentjail-again-") // root's all the way up
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "config.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const file = "[policies.p.network]\nmode = \"names\"\nallow = [\"a.example.test\", \"b.example.test:443\"]\n"
	write(file)
	p, err := Load(path, "p")
	if err != nil {
		t.Fatal(err)
	}
	for what, ann := range map[string]map[string]string{
		"none": nil, "followed": {networkAllow: "b.example.test:443"}, "not covered": {networkAllow: "c.example.test"}, "another": {AnnotationPrefix + "limits.pids": "9"},
	} {
		own, _ := p.Tighten(ann)
		same, err := own.Origin.Again()
		if err != nil || !reflect.DeepEqual(same.Origin, own.Origin) || !sameRules(t, same, own) || len(Differs(same, own)) > 0 {
			t.Errorf("%s: read again:\n%+v\n%+v, %v", what, same, own, err)
		}
	}
	narrowed, _ := p.Tighten(map[string]string{networkAllow: "a.example.test:443;b.example.test:443", AnnotationPrefix + "limits.pids": "9"})
	owners := p
	if err := owners.OwnersNames([]string{"o.example.test:443"}); err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		text  string
		want  []string
		other []string
	}{
		{file, []string{"a.example.test:443", "b.example.test:443"}, nil},
		{
			"[policies.p]\nlimits.cpus = 1\nlimits.pids = 8\n[policies.p.network]\nmode = \"names\"\nallow = [\"a.example.test:80\", \"*.example.test:443\"]\ndeny = [\"b.example.test\"]\n",
			[]string{"a.example.test:443"},
			[]string{"limits.pids", "limits.cpus"},
		},
		{"[policies.p]\nnetwork.mode = \"none\"\nnetwork.allow = [\"a.example.test\"]\n", nil, []string{"network.mode"}},
	} {
		write(w.text)
		got, err := narrowed.Origin.Again()
		if err != nil {
			t.Fatal(err)
		}
		set, err := got.Network.Rules()
		if err != nil {
			t.Fatal(err)
		}
		var allowed []string
		for _, name := range []string{"a.example.test", "b.example.test", "c.example.test"} {
			for port, text := range map[uint16]string{443: ":443", 80: ":80"} {
				if set.Match(name, port).OK {
					allowed = append(allowed, name+text)
				}
			}
		}
		if slices.Sort(allowed); !slices.Equal(allowed, w.want) {
			t.Errorf("%s\nallows %q, want %q", w.text, allowed, w.want)
		}
		if other := Differs(narrowed, got); !slices.Equal(other, w.other) {
			t.Errorf("%s\ndiffers in %q, want %q", w.text, other, w.other)
		}
		if got, err := owners.Origin.Again(); err != nil || got.Network.Mode != NetworkNames || !slices.Equal(got.Network.Allow, []string{"o.example.test:443"}) {
			t.Errorf("the owner's own list: %+v, %v", got.Network, err)
		}
	}
	write("network.allow = [\"*\"]\n[policies.p]\n")
	if _, err := narrowed.Origin.Again(); err == nil {
		t.Error("a policy that cannot be read is taken")
	}
}

func sameRules(t *testing.T, a, b Policy) bool {
	t.Helper()
	x, err := a.Network.Rules()
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.Network.Rules()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Equal(x.Entries(), y.Entries()) && slices.Equal(x.Denied(), y.Denied())
}

// TestDiffers: every setting is compared, but the rules.
func TestDiffers(t *testing.T) {
	for _, key := range keyNames() {
		a, b := Default(), Default()
		f := valueAt(reflect.ValueOf(&b).Elem(), key)
		switch f.Kind() {
		case reflect.String:
			f.SetString("other")
		case reflect.Bool:
			f.SetBool(!f.Bool())
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Float64:
			f.SetFloat(77)
		case reflect.Uint64:
			f.SetUint(77)
		case reflect.Struct:
			f.SetZero()
		case reflect.Map:
			f.Set(reflect.ValueOf(credential.Set{"house": {Header: "x-key", Placeholder: "one"}}))
		default:
			f.SetInt(77)
		}
		want := []string{key}
		if key == "network.allow" || key == "network.deny" {
			want = nil
		}
		if got := Differs(a, b); !slices.Equal(got, want) {
			t.Errorf("%s differs: %q", key, got)
		}
		f.SetZero()
		a = b
		if got := Differs(a, b); len(got) > 0 {
			t.Errorf("%s is the same, and differs: %q", key, got)
		}
	}
}
