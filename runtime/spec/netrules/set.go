package netrules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Presets resolves presets into entries. Its errors contain the remedy.
type Presets interface {
	Preset(name string) ([]string, error)
}

// A Set is the rules of a jail. It is immutable. A nil Set allows nothing.
type Set struct {
	allow, deny []*Rule
	names       [2]map[string][]*Rule // of allow: [0] by name, [1] by what follows "*."
	denied      [2]map[string][]*Rule // of deny
	presets     map[string][]string   // those that were resolved
	source      Presets               // resolves further ones
}

// Verdict is the result of matching a set against a name or an address and a port.
type Verdict struct {
	// OK reports whether the connection is allowed.
	OK bool
	// Rule is the rule that decided; nil if no rule matches the name.
	Rule *Rule
	// Reason is the reason for a refusal, in one line without the name; "" if OK.
	Reason string
	// Remedy is the setting that would allow the connection; "" if nothing should.
	Remedy string
}

// Parse parses the allow and the deny list of a policy. p may be nil if no entry is a preset.
func Parse(allow, deny []string, p Presets) (*Set, error) {
	return parseWith(allow, deny, map[string][]string{}, p)
}

// parseWith is Parse with presets that were resolved already.
func parseWith(allow, deny []string, resolved map[string][]string, p Presets) (*Set, error) {
	s := &Set{presets: resolved, source: p}
	for i := range 2 {
		s.names[i], s.denied[i] = map[string][]*Rule{}, map[string][]*Rule{}
	}
	for _, text := range allow {
		if err := s.add(text, false); err != nil {
			return nil, fmt.Errorf("reading the names to allow: %w", err)
		}
	}
	for _, text := range deny {
		if err := s.add(text, true); err != nil {
			return nil, fmt.Errorf("reading the names to deny: %w", err)
		}
	}
	return s, nil
}

// add parses one entry and adds it. For a preset it adds the preset's entries.
func (s *Set) add(text string, deny bool) error {
	name, ok := strings.CutPrefix(text, "@")
	if !ok {
		return s.add1(text, "", deny)
	}
	if !PresetName(name) {
		return fmt.Errorf("%q is no preset's name", text)
	}
	entries, known := s.presets[name]
	if !known {
		if s.source == nil {
			return fmt.Errorf("there is no preset @%s", name)
		}
		var err error
		if entries, err = s.source.Preset(name); err != nil {
			return fmt.Errorf("preset @%s: %w", name, err)
		}
		s.presets[name] = entries
	}
	for _, e := range entries {
		if err := s.add1(e, name, deny); err != nil {
			return fmt.Errorf("preset @%s: %w", name, err)
		}
	}
	return nil
}

func (s *Set) add1(text, preset string, deny bool) error {
	if len(s.allow)+len(s.deny) == maxEntries {
		return fmt.Errorf("more than %d entries", maxEntries)
	}
	r, err := ParseEntry(text, deny && preset == "")
	if err != nil {
		return err
	}
	r.Preset = preset
	if deny && preset != "" {
		// A preset's ports and options describe how to reach the service. Denying the preset denies
		// the whole name.
		r = Rule{Text: text, Name: r.Name, Wildcard: r.Wildcard, Addr: r.Addr, Deny: true, Preset: preset}
	}
	index := &s.names
	if deny {
		s.deny, index = append(s.deny, &r), &s.denied
	} else {
		s.allow = append(s.allow, &r)
	}
	key, kind := r.Name, 0
	if r.Wildcard {
		kind = 1
	}
	if r.Addr.IsValid() {
		key = r.Addr.String() // no name: its last label is a number, or it has a colon
	}
	index[kind][key] = append(index[kind][key], &r)
	return nil
}

// PresetName reports whether a preset may have this name.
func PresetName(name string) bool {
	return name != "" && len(name) <= 32 && name[0] != '-' && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// each yields the rules for a name, in the order in which they decide. Its cost is bound by the
// number of labels of the name.
func each(index *[2]map[string][]*Rule, name string) iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		rules, more := index[0][name], true
		for more {
			for _, r := range rules {
				if !yield(r) {
					return
				}
			}
			_, name, more = strings.Cut(name, ".")
			rules = index[1][name]
		}
	}
}

// denies reports whether a deny rule is for a port.
func (r *Rule) denies(port uint16) bool { return len(r.Ports) == 0 || slices.Contains(r.Ports, port) }

// deniedBy returns the deny rule for a name and a port, or nil.
func (s *Set) deniedBy(name string, port uint16) *Rule {
	for r := range each(&s.denied, name) {
		if r.denies(port) {
			return r
		}
	}
	return nil
}

// Allowed reports whether any port of a name is allowed, so that DNS answers it. The name must be
// canonical; any other matches nothing.
func (s *Set) Allowed(name string) bool {
	if c, err := Canonical(name); s == nil || err != nil || c != name {
		return false
	}
	for r := range each(&s.names, name) {
		if s.leaves(r, name) {
			return true
		}
	}
	return false
}

// Named reports whether any rule is for a name, on whatever port: one that allows it or one that
// denies it.
func (s *Set) Named(name string) bool {
	if s == nil {
		return false
	}
	for _, index := range []*[2]map[string][]*Rule{&s.names, &s.denied} {
		for range each(index, name) {
			return true
		}
	}
	return false
}

// leaves reports whether any port of a rule remains for a name after the deny list.
func (s *Set) leaves(r *Rule, name string) bool {
	return slices.ContainsFunc(r.Ports, func(port uint16) bool { return s.deniedBy(name, port) == nil })
}

// Exact returns the allowed names without wildcard, each once, in the order of the policy.
func (s *Set) Exact() []string {
	if s == nil {
		return nil
	}
	var out []string
	seen := map[string]bool{}
	for _, r := range s.allow {
		if r.Name != "" && !r.Wildcard && !seen[r.Name] && s.leaves(r, r.Name) {
			seen[r.Name] = true
			out = append(out, r.Name)
		}
	}
	return out
}

// Match returns the verdict on a connection to a name and a port. The name must be canonical; any
// other is refused.
func (s *Set) Match(name string, port uint16) Verdict {
	if c, err := Canonical(name); err != nil || c != name {
		return Verdict{Reason: "not a name in its canonical form"}
	}
	return s.match(name, name, port)
}

// MatchAddr returns the verdict on a connection to an address that was not resolved from a name.
func (s *Set) MatchAddr(addr netip.Addr, port uint16) Verdict {
	if !addr.IsValid() || addr.Zone() != "" {
		return Verdict{Reason: "not an address"}
	}
	key := addr.Unmap().String()
	if addr.Unmap().Is6() {
		return s.match(key, "["+key+"]", port)
	}
	return s.match(key, key, port)
}

// DeniesAddr returns the deny rule for an address that a name resolved to, or nil.
func (s *Set) DeniesAddr(addr netip.Addr, port uint16) *Rule {
	if s == nil {
		return nil
	}
	for _, r := range s.denied[0][addr.WithZone("").Unmap().String()] {
		if r.denies(port) {
			return r
		}
	}
	return nil
}

// match looks a key up in the index; target is the key's form in an entry.
func (s *Set) match(key, target string, port uint16) Verdict {
	remedy := fmt.Sprintf("network.allow = [%q]", fmt.Sprintf("%s:%d", target, port))
	if s == nil || port == 0 {
		return Verdict{Reason: "nothing is allowed", Remedy: remedy}
	}
	if r := s.deniedBy(key, port); r != nil {
		return Verdict{Rule: r, Reason: fmt.Sprintf("denied by %q", r.Source())}
	}
	var other *Rule
	for r := range each(&s.names, key) {
		if slices.Contains(r.Ports, port) {
			return Verdict{OK: true, Rule: r}
		}
		other = cmp.Or(other, r)
	}
	if other != nil {
		return Verdict{Rule: other, Reason: fmt.Sprintf("port %d is not among those of %q", port, other.Source()), Remedy: remedy}
	}
	return Verdict{Reason: "no entry allows it", Remedy: remedy}
}

// Source returns the rule's text for reports, with the preset that it comes from.
func (r *Rule) Source() string {
	if r.Preset != "" {
		return "@" + r.Preset + ": " + r.Text
	}
	return r.Text
}

// Rules returns the allow rules in the order of the policy, with a preset's rules in the preset's
// place. The caller must not change them.
func (s *Set) Rules() []*Rule {
	if s == nil {
		return nil
	}
	return slices.Clip(s.allow)
}

// Entries returns the canonical text of the allow list with presets expanded. Parsed again with
// Denied, it yields the same set.
func (s *Set) Entries() []string {
	if s == nil {
		return nil
	}
	return texts(s.allow)
}

// Denied returns the canonical text of the deny list.
func (s *Set) Denied() []string {
	if s == nil {
		return nil
	}
	return texts(s.deny)
}

// Digest returns a hash of the canonical text: equal sets have equal digests.
func (s *Set) Digest() string {
	h := sha256.New()
	for _, list := range [][]string{s.Entries(), s.Denied()} {
		for _, text := range list {
			_, _ = io.WriteString(h, text+"\n") // no entry has a line end
		}
		_, _ = io.WriteString(h, "\n")
	}
	return hex.EncodeToString(h.Sum(nil))
}

func texts(rules []*Rule) []string {
	out := make([]string, len(rules))
	for i, r := range rules {
		out[i] = r.String()
	}
	return out
}

// Narrow returns the part of a set that the entries of an annotation request. The set must cover
// each entry. The deny list stays.
func (s *Set) Narrow(entries []string) (*Set, error) {
	if s == nil {
		return nil, errors.New("nothing is allowed that could be narrowed")
	}
	// Presets resolve as in the set, so that a preset means the same for both.
	n, err := parseWith(entries, s.Denied(), maps.Clone(s.presets), s.source)
	if err != nil {
		return nil, err
	}
	for _, r := range n.allow {
		if err := s.Covers(*r); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// Covers returns an error unless the set allows every connection that the rule allows. An option
// that loosens a check must be in every overlapping rule of the set (same name and port), since any
// of these rules may decide.
func (s *Set) Covers(r Rule) error {
	if r.Deny || len(r.Ports) == 0 {
		return fmt.Errorf("%q allows nothing", r.Text)
	}
	for _, port := range r.Ports {
		covered := false
		for _, p := range s.Rules() {
			if !slices.Contains(p.Ports, port) {
				continue
			}
			covered = covered || coveredBy(&r, p)
			if coveredBy(&r, p) || coveredBy(p, &r) {
				if o := looser(&r, p); o != "" {
					return fmt.Errorf("%q: policy's %q does not have %s", r.Text, p.Source(), o)
				}
			}
		}
		if !covered {
			return fmt.Errorf("%q: port %d is not covered by policy (remedy: policy: network.allow)", r.Text, port)
		}
	}
	return nil
}

// coveredBy reports whether every target of rule a is a target of rule b.
func coveredBy(a, b *Rule) bool {
	switch {
	case a.Addr.IsValid() || b.Addr.IsValid():
		return a.Addr == b.Addr
	case !b.Wildcard:
		return !a.Wildcard && a.Name == b.Name
	case a.Wildcard && a.Name == b.Name:
		return true
	}
	return strings.HasSuffix(a.Name, "."+b.Name)
}

// looser returns an option that a has and b lacks, or "".
func looser(a, b *Rule) string {
	switch {
	case a.Private && !b.Private:
		return "private"
	case a.TLS == TLSAny && b.TLS != TLSAny:
		return "tls=any"
	case a.ECH && !b.ECH && b.TLS != TLSAny:
		return "ech"
	}
	return ""
}
