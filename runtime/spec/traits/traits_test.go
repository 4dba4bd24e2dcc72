package traits

import (
	"slices"
	"testing"
)

// TestFileNameDecides: a file's name decides, also in a path, and nothing is assumed of one
// that is not in the table.
func TestFileNameDecides(t *testing.T) {
	for _, n := range Auto() {
		if tr := Of("/opt/bin/" + n); tr.Release.Record == "" {
			t.Errorf("%s by its path: %+v", n, tr)
		}
		if b := Of(n).Boundary.Lines(); !slices.Equal(b, []string{"held by: host kernel"}) {
			t.Errorf("%s: %q", n, b)
		}
	}
	for _, n := range []string{"", "runc-new", "/runc/youki"} {
		if tr := Of(n); tr.KeepsStdio || tr.GroupsBelowRoot || tr.EveryReleaseWorks || tr.Release.Record != "" {
			t.Errorf("%s is not known: %+v", n, tr)
		}
	}
}

// TestSandboxes: a sandbox is named, and never a choice; its first process is not waited for at a
// pipe, and it reports of each protection that is void what stands in its place.
func TestSandboxes(t *testing.T) {
	for _, n := range Sandboxes() {
		tr := Of("/opt/bin/" + n)
		if slices.Contains(Auto(), n) || !slices.Contains(Names(), n) || Bounded(tr.Sandbox) != n || tr.Release.Record != "" {
			t.Errorf("%s: %+v", n, tr)
		}
		for name, place := range tr.Boundary.Other {
			if place == Void && tr.Boundary.Instead[name] == "" {
				t.Errorf("%s: %s is void, and nothing is stated to stand in its place", n, name)
			}
		}
	}
	if len(Sandboxes()) == 0 || Bounded("") != "" || Bounded("none") != "" {
		t.Errorf("%q, %q", Sandboxes(), Bounded(""))
	}
}

// TestBoundary: each protection is stated to be where the table has it.
func TestBoundary(t *testing.T) {
	b := Boundary{Place: Guest, Other: map[string]Place{"seccomp": Void, "memory": Host, "clocks": Guest}}
	for name, want := range map[string]Place{"seccomp": Void, "memory": Host, "clocks": Guest, "masked paths": Guest} {
		if got := b.Of(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got, want := b.Lines(), []string{"held by: guest kernel", "held by: host kernel: memory", "held by: void: seccomp"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if text, err := Void.MarshalText(); string(text) != "void" || err != nil {
		t.Errorf("%s, %v", text, err)
	}
}

// TestHeldBy: several delegates are distinguished only where they differ.
func TestHeldBy(t *testing.T) {
	if got, want := HeldBy(Boundaries(Auto()...)), []string{"held by: host kernel"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	other := map[string]Boundary{"a": {}, "b": {Place: Guest}}
	if got, want := HeldBy(other), []string{"a: held by: host kernel", "b: held by: guest kernel"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
