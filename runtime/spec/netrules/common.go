package netrules

import (
	"slices"

	"agentjail.dev/runtime/spec/lists"
)

// With returns the intersection of two sets: each target that a rule of both sets has, with the
// ports of both. An option is kept if every rule of both sets that shares a name and a port has the
// option, since any of these rules may decide. A target that one set denies is denied. Entries
// beyond maxEntries are left out.
func (s *Set) With(o *Set) (*Set, error) {
	deny := lists.Union(s.Denied(), o.Denied()...)
	var allow []string
	seen := map[string]bool{}
	for _, a := range s.Rules() {
		for _, b := range o.Rules() {
			r, ok := overlap(a, b)
			if !ok {
				continue
			}
			s.strictest(&r)
			o.strictest(&r)
			if text := r.String(); !seen[text] && len(allow)+len(deny) < maxEntries {
				seen[text] = true
				allow = append(allow, text)
			}
		}
	}
	return Parse(allow, deny, nil)
}

// overlap returns the rule for the targets and ports that two rules share.
func overlap(a, b *Rule) (Rule, bool) {
	r := *a
	switch {
	case coveredBy(a, b):
	case coveredBy(b, a):
		r = *b
	default:
		return r, false
	}
	r.Ports = nil
	for _, port := range a.Ports {
		if slices.Contains(b.Ports, port) {
			r.Ports = append(r.Ports, port)
		}
	}
	return r, len(r.Ports) > 0
}

// strictest removes each option that any overlapping rule of the set (same name and port) lacks.
func (s *Set) strictest(r *Rule) {
	if !r.Private && r.TLS == "" && !r.ECH {
		return
	}
	for _, p := range s.Rules() {
		if _, ok := overlap(r, p); !ok {
			continue
		}
		r.Private = r.Private && p.Private
		r.ECH = r.ECH && (p.ECH || p.TLS == TLSAny)
		if p.TLS != TLSAny {
			r.TLS = ""
		}
	}
}
