package netrules

import (
	"slices"
	"testing"
)

// TestWith: what two lists share, with the options that all of their rules for it have, and no more.
func TestWith(t *testing.T) {
	list := func(s ...string) []string { return s }
	for _, w := range []struct{ a, b, want []string }{
		{list("a.example.test"), list("a.example.test"), list("a.example.test:443,80")},
		{list("a.example.test:443,22"), list("a.example.test:22,80"), list("a.example.test:22")},
		{list("a.example.test"), list("b.example.test"), nil},
		{list("a.example.test"), nil, nil},
		{list("*.example.test"), list("a.example.test:443", "example.test"), list("a.example.test:443")},
		{list("*.example.test:443"), list("*.w.example.test"), list("*.w.example.test:443")},
		{list("10.0.0.5:22,23"), list("10.0.0.5:23", "10.0.0.6:22"), list("10.0.0.5:23")},
		{list("a.example.test:22 private"), list("a.example.test:22"), list("a.example.test:22")},
		{list("a.example.test:22 private"), list("a.example.test:22 private"), list("a.example.test:22 private")},
		{list("a.example.test:443 tls=any"), list("*.example.test:443 tls=any", "a.example.test:443"), list("a.example.test:443")},
		{list("a.example.test:443 ech"), list("*.example.test:443 tls=any"), list("a.example.test:443 ech")},
	} {
		a, b := parsed(t, w.a, nil), parsed(t, w.b, list("d.example.test"))
		for _, order := range [][2]*Set{{a, b}, {b, a}} {
			got, err := order[0].With(order[1])
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Entries(), w.want) && len(got.Entries())+len(w.want) > 0 {
				t.Errorf("%q with %q: %q, want %q", w.a, w.b, got.Entries(), w.want)
			}
			if !slices.Equal(got.Denied(), list("d.example.test")) {
				t.Errorf("denied: %q", got.Denied())
			}
			for _, r := range got.Rules() {
				for _, s := range order {
					if err := s.Covers(*r); err != nil {
						t.Errorf("%q with %q: %v", w.a, w.b, err)
					}
				}
			}
		}
	}
}

func parsed(t *testing.T, allow, deny []string) *Set {
	t.Helper()
	s, err := Parse(allow, deny, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
