package seccomp

import (
	"reflect"
	"testing"
)

// A filter intersected with itself is that filter: hardening a hardened spec
// must change nothing.
func TestIntersectSelf(t *testing.T) {
	for _, p := range Profiles() {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, kill := range []bool{false, true} {
				a, err := OCI(Options{Profile: p, Arch: arch, Kill: kill})
				if err != nil {
					t.Fatal(err)
				}
				b, notes := Intersect(a, a)
				if !reflect.DeepEqual(a, b) || len(notes) > 0 {
					t.Errorf("%s %s kill=%v: changed by itself, notes %q", p, arch, kill, notes)
				}
			}
		}
	}
}

func BenchmarkOCI(b *testing.B) {
	for b.Loop() {
		if _, err := OCI(Options{Arch: "amd64"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIntersect(b *testing.B) {
	a, err := OCI(Options{Arch: "amd64"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		Intersect(a, a)
	}
}
