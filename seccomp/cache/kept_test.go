package cache

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
)

var options = seccomp.Options{Profile: "default", Arch: "amd64"}

// incoming is a section with every field that is looked at.
func incoming() *specs.LinuxSeccomp {
	one, two := uint(1), uint(38)
	return &specs.LinuxSeccomp{
		DefaultAction: specs.ActErrno, DefaultErrnoRet: &one,
		Architectures: []specs.Arch{specs.ArchX86_64, specs.ArchX86},
		Flags:         []specs.LinuxSeccompFlag{specs.LinuxSeccompFlagLog},
		ListenerPath:  "/run/listener", ListenerMetadata: "m",
		Syscalls: []specs.LinuxSyscall{
			{Names: []string{"read", "write", "close", "exit_group"}, Action: specs.ActAllow},
			{Names: []string{"personality"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{{Index: 1, Value: 8, ValueTwo: 9, Op: specs.OpMaskedEqual}}},
			{Names: []string{"bpf"}, Action: specs.ActErrno, ErrnoRet: &two},
		},
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What comes from the directory is what would be made.
func TestGet(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "filters")}
	for what, in := range map[string]*specs.LinuxSeccomp{"none": nil, "one": incoming()} {
		want, err := Make(options, in)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := seccomp.OCI(options)
		if err != nil {
			t.Fatal(err)
		}
		both, notes := seccomp.Intersect(ours, in)
		wide, _ := seccomp.WithEntry(both)
		second, err := compiler.Compile(both)
		if err != nil || !reflect.DeepEqual(want, &Filter{wide, notes, bpf.Encode(second)}) {
			t.Errorf("section %s: not the meeting of both (%v)", what, err)
		}
		for _, from := range []string{"made", "kept"} {
			got, err := s.Get(options, in)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("section %s, %s: not what is made (%v)", what, from, err)
			}
		}
	}
	if n := len(files(t, s.Dir)); n != 2 {
		t.Errorf("%d files are kept", n)
	}
}

// It is taken from there: what somebody put into the file is what comes.
func TestGetReads(t *testing.T) {
	s := Store{t.TempDir()}
	if _, err := s.Get(options, nil); err != nil {
		t.Fatal(err)
	}
	other, err := Make(seccomp.Options{Profile: "strict", Arch: "amd64"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data := encode(other)
	path := files(t, s.Dir)[0]
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(options, nil); err != nil || !reflect.DeepEqual(got, other) {
		t.Errorf("the file is not read (%v)", err)
	}
	// What is no filter is made anew.
	want, _ := Make(options, nil)
	for n := range data {
		if n > 16 && n < len(data)-16 {
			continue
		}
		if err := os.WriteFile(path, data[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(options, nil)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d of a file's %d bytes: another filter (%v)", n, len(data), err)
		}
	}
}

// Every value of a section comes back, and of a file that is cut or goes on nothing does.
func TestDecode(t *testing.T) {
	f := &Filter{Delegates: incoming(), Notes: []string{"a", ""}, Program: []byte{1, 2, 3}}
	same := func(what string) {
		if got, err := decode(encode(f)); err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("%s changed: %+v is not\n%+v (%v)", what, got, f, err)
		}
	}
	same("nothing")
	each(reflect.ValueOf(f).Elem(), "filter", func(what string) {
		if what != "filter.Delegates" { // every filter has one
			same(what)
		}
	})
	data := encode(f)
	for n := range data {
		if got, err := decode(data[:n]); err == nil {
			t.Errorf("%d of %d bytes are read: %+v", n, len(data), got)
		}
	}
	if _, err := decode(append(data, 0)); err == nil {
		t.Error("a byte too many is read")
	}
	huge := encoder{}
	huge.text("SCMP_ACT_ERRNO")
	huge.flag(false)
	huge.number(1 << 62)
	if _, err := decode(huge.buf); err == nil {
		t.Error("a list longer than the file is read")
	}
}

// Nothing may be left out of what a filter is found by: every value of options
// and section makes another name.
func TestName(t *testing.T) {
	seen := map[string]string{}
	add := func(what, n string) {
		t.Helper()
		if old, ok := seen[n]; ok {
			t.Errorf("%s has the name of %s", what, old)
		}
		seen[n] = what
	}
	add("the first", name("a", options, incoming()))
	add("another program", name("b", options, incoming()))
	add("no section", name("a", options, nil))
	add("an empty section", name("a", options, new(specs.LinuxSeccomp)))
	o := options
	each(reflect.ValueOf(&o).Elem(), "options", func(what string) { add(what, name("a", o, incoming())) })
	in := incoming()
	each(reflect.ValueOf(in).Elem(), "section", func(what string) { add(what, name("a", options, in)) })
}

// each changes one value at a time, and back.
func each(v reflect.Value, path string, changed func(string)) {
	change := func(to reflect.Value) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		v.Set(to)
		changed(path)
		v.Set(old)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), path+"."+v.Type().Field(i).Name, changed)
		}
	case reflect.Slice:
		for i := range v.Len() {
			each(v.Index(i), path+"[]", changed)
		}
		change(reflect.AppendSlice(v, reflect.MakeSlice(v.Type(), 1, 1)))
	case reflect.Pointer:
		if v.IsNil() {
			change(reflect.New(v.Type().Elem()))
		} else {
			each(v.Elem(), path, changed)
			change(reflect.Zero(v.Type()))
		}
	case reflect.String:
		change(reflect.ValueOf(v.String() + "x").Convert(v.Type()))
	case reflect.Bool:
		change(reflect.ValueOf(!v.Bool()))
	case reflect.Uint, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		change(reflect.ValueOf(v.Uint() + 100).Convert(v.Type()))
	default:
		panic("a field of an unknown kind: " + path)
	}
}

// Many profiles, and programs that come and go, do not fill the directory.
func TestKeepsFew(t *testing.T) {
	s := Store{t.TempDir()}
	for n := range 3 * maxKept {
		in := incoming()
		in.ListenerMetadata = string(rune('a' + n))
		if _, err := s.Get(options, in); err != nil {
			t.Fatal(err)
		}
		if n := len(files(t, s.Dir)); n > maxKept {
			t.Fatalf("%d files", n)
		}
	}
}

// A directory that cannot be used costs nothing but time.
func TestNoDir(t *testing.T) {
	s := Store{"/proc/self/nothing"}
	if f, err := s.Get(options, incoming()); err != nil || len(f.Program) == 0 {
		t.Error(err)
	}
}

func BenchmarkMake(b *testing.B) {
	in := incoming()
	for b.Loop() {
		if _, err := Make(options, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s, in := Store{b.TempDir()}, incoming()
	for b.Loop() {
		if _, err := s.Get(options, in); err != nil {
			b.Fatal(err)
		}
	}
}
