package harden

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/policy"
)

// check holds what must always hold of one spec, policy and host.
func check(t *testing.T, in *specs.Spec, pol policy.Policy, f Facts) (passed bool) {
	t.Helper()
	before := jsonOf(t, in)
	res, rep, err := Harden(in, pol, f)
	if after := jsonOf(t, in); after != before {
		t.Fatalf("the incoming spec was changed\nfrom %s\nto   %s", before, after)
	}
	if rep == nil {
		t.Fatal("no report")
	}
	if err != nil {
		if !errors.Is(err, refusal.Err) || res != nil || strings.ContainsAny(err.Error(), "\n\r\x00") {
			t.Fatalf("a refusal with %v: %q, of\n%s", res, err, before)
		}
		return false
	}
	if found := looser(in, res, pol, f); len(found) > 0 {
		t.Fatalf("looser: %s\nincoming %s\nhardened %s\npolicy %s\nplan %s", strings.Join(found, "; "), before, jsonOf(t, res.Spec), jsonOf(t, pol), jsonOf(t, res.Plan))
	}
	if want, _ := pol.Tighten(in.Annotations); jsonOf(t, res.Policy) != jsonOf(t, want) {
		t.Fatalf("the policy that holds is %s, not %s", jsonOf(t, res.Policy), jsonOf(t, want))
	}
	given(t, in, pol, f, res)
	// Same twice. What was mounted from the host is known again.
	g := f
	g.Sources = slices.Clone(f.Sources)
	again, _, err := Harden(res.Spec, pol, g)
	if err != nil {
		t.Fatalf("refused when hardened again: %v\n%s", err, jsonOf(t, res.Spec))
	}
	if a, b := jsonOf(t, res.Spec), jsonOf(t, again.Spec); a != b {
		t.Fatalf("hardened again\n%s\nis not\n%s\nof\n%s", b, a, before)
	}
	// The second time the label is the given one, and of the jail's root the bundle has only what its process keeps.
	again.Plan.Label, again.Plan.Capabilities = res.Plan.Label, res.Plan.Capabilities
	if a, b := jsonOf(t, res.Plan), jsonOf(t, again.Plan); a != b {
		t.Fatalf("planned again\n%s\nis not\n%s", b, a)
	}
	return true
}

// given holds that a filter made before hardening, of what Effective.Filter states,
// makes the same jail as one that hardening makes.
func given(t *testing.T, in *specs.Spec, pol policy.Policy, f Facts, res *Result) {
	t.Helper()
	before := jsonOf(t, in)
	e := Tighten(in, pol)
	f.Filter = meetFilters(e.Filter(in, f))
	again, _, err := e.Harden(in, f)
	if err != nil {
		t.Fatalf("refused with the filter made before: %v", err)
	}
	if a, b := jsonOf(t, res.Spec), jsonOf(t, again.Spec); a != b {
		t.Fatalf("with the filter made before\n%s\nis not\n%s", b, a)
	}
	if after := jsonOf(t, in); after != before {
		t.Fatalf("the incoming spec was changed\nfrom %s\nto   %s", before, after)
	}
}

// TestFactsAreData: hardening gets facts and a policy as data, without functions of the caller's
// that it would call.
func TestFactsAreData(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type, string)
	look = func(x reflect.Type, name string) {
		if seen[x] {
			return
		}
		seen[x] = true
		switch x.Kind() {
		case reflect.Func, reflect.Chan:
			t.Errorf("%s is a %s", name, x)
		case reflect.Pointer, reflect.Slice, reflect.Array:
			look(x.Elem(), name)
		case reflect.Map:
			look(x.Key(), name+" key")
			look(x.Elem(), name)
		case reflect.Struct:
			for field := range x.Fields() {
				look(field.Type, name+"."+field.Name)
			}
		}
	}
	look(reflect.TypeFor[Facts](), "Facts")
	look(reflect.TypeFor[Effective](), "Effective")
	if len(seen) < 20 {
		t.Errorf("only %d types", len(seen))
	}
}

// TestOnlyTighter tries specs, policies and hosts at random.
func TestOnlyTighter(t *testing.T) {
	n := 4000
	if testing.Short() {
		n = 500
	}
	bases := slices.Collect(maps.Values(fixtures(t)))
	slices.SortFunc(bases, func(a, b *specs.Spec) int { return strings.Compare(jsonOf(t, a), jsonOf(t, b)) })
	bases = append(bases, small())
	passed := 0
	for seed := range uint64(n) {
		g := newGen(seed)
		s := g.spec(bases[g.IntN(len(bases))])
		pol := g.policy()
		if check(t, s, pol, g.facts(s, pol)) {
			passed++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d of %d specs make a jail, the others are refused", passed, n)
	if passed < n/10 {
		t.Errorf("only %d of %d specs pass: too few to mean something", passed, n)
	}
}

// TestContainerLoosensNothing adds annotations and environment to a spec, and
// compares the two jails: no dimension of the second is looser.
func TestContainerLoosensNothing(t *testing.T) {
	bases := fixtures(t)
	names := slices.Sorted(maps.Keys(bases))
	compared := 0
	for seed := range uint64(1200) {
		g := newGen(seed)
		s := g.spec(bases[names[g.IntN(len(names))]])
		pol := g.policy()
		f := g.facts(s, pol)
		more := clone(s)
		more.Annotations = g.annotate(nil)
		maps.Copy(more.Annotations, s.Annotations) // added, not changed
		if more.Process != nil {
			for range g.IntN(3) {
				more.Process.Env = append(more.Process.Env, g.env())
			}
		}
		plain, _, err1 := Harden(s, pol, f)
		loose, _, err2 := Harden(more, pol, f)
		if err1 != nil {
			if err2 == nil {
				t.Fatalf("seed %d: annotations let a refused spec start: %v", seed, err1)
			}
			continue
		}
		if err2 != nil {
			continue // on_loosen = "refuse"
		}
		compared++
		// The first jail's spec taken as the incoming one: the second must
		// grant nothing beyond it.
		first := clone(plain.Spec)
		first.Annotations, first.Process.Env = loose.Spec.Annotations, loose.Spec.Process.Env
		g2 := f
		g2.Sources = append(slices.Clone(f.Sources), nil)
		for len(g2.Sources) < len(first.Mounts) {
			g2.Sources = append(g2.Sources, nil)
		}
		found := looser(first, &Result{Spec: loose.Spec, Plan: loose.Plan}, pol, g2)
		// What was hardened away from the first is no longer requested.
		if len(found) > 0 {
			t.Fatalf("seed %d: annotations %v loosen: %v", seed, more.Annotations, found)
		}
		if loose.Plan.Root.Size > plain.Plan.Root.Size || loose.Plan.Root.Inodes > plain.Plan.Root.Inodes {
			t.Fatalf("seed %d: a larger layer: %+v", seed, loose.Plan.Root)
		}
	}
	if compared < 300 {
		t.Errorf("only %d compared", compared)
	}
}

// FuzzHarden reads a config.json as the loader does, changes it by the seed, and
// holds what must always hold.
func FuzzHarden(f *testing.F) {
	for name, s := range fixtures(f) {
		data, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint64(len(name)))
	}
	data, err := json.Marshal(small())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, uint64(1))
	f.Add([]byte(`{"mounts": [{"destination": "/a", "future": 1}], "linux": {"future": {}}}`), uint64(2))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		s := new(specs.Spec)
		unknown, err := bundle.Decode(data, s)
		if err != nil {
			return
		}
		g := newGen(seed)
		s = g.spec(s)
		pol := g.policy()
		facts := g.facts(s, pol)
		facts.Unknown = unknown
		check(t, s, pol, facts)
		if s.Process != nil {
			checkExec(t, s.Process, pol, facts)
		}
		if s.Linux != nil && s.Linux.Resources != nil {
			checkUpdate(t, s.Linux.Resources, pol, facts)
		}
	})
}
