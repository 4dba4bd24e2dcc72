package main

import (
	"slices"
	"testing"

	"agentjail.dev/tests/env"
)

// TestPlan: what takes long under emulation runs there by name only, and everywhere else as ever.
func TestPlan(t *testing.T) {
	names := func(o options) (out []string) {
		t.Helper()
		steps, err := plan(o)
		env.Check(t, err)
		for _, s := range steps {
			out = append(out, s.name)
		}
		return out
	}
	for _, c := range []struct {
		o    options
		has  string
		want bool
	}{
		{options{kind: "engines"}, "tests-names", true},
		{options{kind: "engines", emulated: true}, "tests-names", false},
		{options{kind: "engines", emulated: true}, "tests-ebpf", true},
		{options{kind: "engines", emulated: true, suites: []string{"names"}}, "tests-names", true},
		{options{kind: "apparmor", emulated: true}, "tests-e2e", true},
		{options{kind: "apparmor", emulated: true}, "tests-e2e-docker", false},
		{options{kind: "apparmor"}, "tests-e2e-docker", true},
	} {
		if got := slices.Contains(names(c.o), c.has); got != c.want {
			t.Errorf("%+v: %s: %v", c.o, c.has, got)
		}
	}
}

func TestVirtualised(t *testing.T) {
	for text, want := range map[string]bool{
		"processor : 0\nflags\t\t: fpu vmx sse\n": true,
		"processor : 0\nflags\t\t: fpu svm\n":     true,
		"processor : 0\nflags\t\t: fpu vmx_not\n": false,
		"processor : 0\nBogoMIPS : 50.00\n":       true,
		"":                                        true,
	} {
		if got := virtualised(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
