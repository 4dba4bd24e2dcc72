package netrules

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"github.com", "github.com"},
		{"GitHub.COM.", "github.com"},
		{"_dmarc.a-b.example", "_dmarc.a-b.example"},
		{"xn--mnchen-3ya.de", "xn--mnchen-3ya.de"},
		{"registry", "registry"},
		{"1.2.3.4a", "1.2.3.4a"},
		{"0x7f.example", "0x7f.example"},
		{"a.0x7g", "a.0x7g"},
		{strings.Repeat("a", 63) + ".de", strings.Repeat("a", 63) + ".de"},
	} {
		got, err := Canonical(c.in)
		if got != c.want || err != nil {
			t.Errorf("Canonical(%q) = %q, %v", c.in, got, err)
		}
	}
	for _, in := range bad {
		if got, err := Canonical(in); err == nil {
			t.Errorf("Canonical(%q) = %q", in, got)
		}
	}
}

// bad are no names: what passed for one somewhere, and the notations of addresses that inet_aton(3)
// has.
var bad = []string{
	"", ".", "..", "github.com..", ".github.com", "git..hub.com",
	"attacker.com\x00.github.com", "github.com\x00", "github.com\r\n", "github.com\r\nHost: a", "github.com\t", "github.com ", " github.com",
	"user@github.com", "github.com:443", "github.com/", "github.com/..", "github.com?", "github.com#", "github.com%00", "%67ithub.com", `git\hub.com`,
	"*.github.com", "*", "git*hub.com", "gıthub.com", "\u212Aube.example", "github\u3002com", "github\uFF0Ecom", "github\u200b.com", "github.com\x7f", "\xff.com",
	"-github.com", "github-.com", "a.-.com", "git hub.com", "github,com", "(github).com",
	"127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f.1", "0x7f000001", "0X7F000001", "2130706433", "017700000001", "1.0x", "0x",
	"foo.1", "foo.0x1", "a.0X1f", "08", "256.256.256.256", "1.2.3.4.5", "99999999999999999999",
	"::1", "[::1]", "::ffff:169.254.169.254", "::ffff:1.2.3.4%x.github.com", "fe80::1%eth0", "1.2.3.4%x.github.com",
	"localhost", "LOCALHOST.", "a.localhost", "a.b.localhost.",
	strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 127) + "com",
}

func TestParseEntry(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"github.com", "github.com:443,80"},
		{"GitHub.com.:22,443", "github.com:22,443"},
		{"*.githubusercontent.com", "*.githubusercontent.com:443,80"},
		{"*.a.b:443 tls=any ech", "*.a.b:443 tls=any ech"},
		{"git.house.example:22 private", "git.house.example:22 private"},
		{"git.house.example:22 ech private", "git.house.example:22 private ech"},
		{"10.0.0.5:5432", "10.0.0.5:5432"},
		{"[2001:DB8::1]:443", "[2001:db8::1]:443"},
		{"[::ffff:10.0.0.5]:5432", "10.0.0.5:5432"},
		{"münchen.example:443", "xn--mnchen-3ya.example:443"},
		{"MÜNCHEN.example:443", "xn--mnchen-3ya.example:443"},
		{"*.münchen.example:443", "*.xn--mnchen-3ya.example:443"},
		{"gіthub.com:443", "xn--gthub-n2e.com:443"}, // Cyrillic і: another name, and shown as one
		{"registry:5000", "registry:5000"},
	} {
		r, err := ParseEntry(c.in, false)
		if err != nil || r.String() != c.want {
			t.Errorf("%q: %q, %v", c.in, r.String(), err)
			continue
		}
		again, err := ParseEntry(r.String(), false)
		if err != nil || again.String() != c.want {
			t.Errorf("%q: %q, %v", r.String(), again.String(), err)
		}
	}
	refused := []string{
		"*", "*.com", "*.localhost", "**.github.com", "*.*.github.com", "a.*.github.com", "*github.com", "github.*", "github.com.*",
		"github.com:", "github.com:0", "github.com:65536", "github.com:-1", "github.com:+443", "github.com:0443", "github.com:443,", "github.com:,443",
		"github.com:443,443", "github.com:443:22", "github.com:https", "github.com:443-500", "github.com: 443", "github.com:443,\t80", "github.com:４４３",
		"github.com:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
		"github.com  private", "github.com private ", " github.com", "github.com\tprivate", "github.com\nprivate", "github.com private private",
		"github.com tls=none", "github.com TLS=any", "github.com PRIVATE", "*.house.example private",
		"!github.com", "https://github.com", "github.com/path", "user@github.com",
		"1.2.3.4", "127.1:443", "0x7f000001:443", "2130706433:443", "0177.0.0.1:443", "1.2.3.4/24:443", "::1", "::1:443", "[::1]", "[::1", "[::1]443", "[1.2.3.4]:443",
		"[fe80::1%eth0]:443", "[github.com]:443", "[]:443", ":443", "", "@npm", "１２７.0.0.1:443", "127。0。0。1:443",
		strings.Repeat("a", 600),
	}
	for _, in := range append(refused, bad...) {
		if entries[in] {
			continue
		}
		if r, err := ParseEntry(in, false); err == nil {
			t.Errorf("%q passed as %q", in, r.String())
		}
	}
	for _, in := range []string{"github.com private", "github.com:443 ech", "*", "github.com:0"} {
		if r, err := ParseEntry(in, true); err == nil {
			t.Errorf("deny %q passed as %q", in, r.String())
		}
	}
	for in, want := range map[string]string{"github.com": "github.com", "*.com": "*.com", "1.2.3.4": "1.2.3.4", "[::1]": "[::1]", "a.b:22": "a.b:22"} {
		if r, err := ParseEntry(in, true); err != nil || r.String() != want {
			t.Errorf("deny %q: %q, %v", in, r.String(), err)
		}
	}
}

// entries are no names, but entries of policy: with a port or a wildcard, or in letters that UTS 46
// maps.
var entries = map[string]bool{
	"github.com:443": true, "*.github.com": true,
	"\u212Aube.example": true, "github\u3002com": true, "github\uFF0Ecom": true, "gıthub.com": true, "github\u200b.com": true,
}

func parse(t *testing.T, allow, deny []string) *Set {
	t.Helper()
	s, err := Parse(allow, deny, table{"gh": {"github.com:22,443", "api.github.com"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMatch(t *testing.T) {
	s := parse(t,
		[]string{"@gh", "*.example.com:443", "deep.a.example.com:8443 tls=any", "*.a.example.com:443 ech", "10.0.0.5:5432", "[2001:db8::1]:443", "bad.example.org", "half.example.org"},
		[]string{"secret.example.com", "*.evil.example.com", "bad.example.org", "half.example.org:80", "10.0.0.6"})
	for _, c := range []struct {
		name string
		port uint16
		ok   bool
		rule string
	}{
		{"github.com", 443, true, "github.com:22,443"},
		{"github.com", 22, true, "github.com:22,443"},
		{"github.com", 80, false, "github.com:22,443"},
		{"github.com", 0, false, ""},
		{"api.github.com", 80, true, "api.github.com"},
		{"x.github.com", 443, false, ""},
		{"notgithub.com", 443, false, ""},
		{"github.com.evil.example", 443, false, ""},
		{"GitHub.com", 443, false, ""},
		{"github.com.", 443, false, ""},
		{"x.example.com", 443, true, "*.example.com:443"},
		{"x.y.example.com", 443, true, "*.example.com:443"},
		{"example.com", 443, false, ""},
		{"notexample.com", 443, false, ""},
		{"x.a.example.com", 443, true, "*.a.example.com:443 ech"},
		{"deep.a.example.com", 8443, true, "deep.a.example.com:8443 tls=any"},
		{"deep.a.example.com", 443, true, "*.a.example.com:443 ech"},
		{"a.example.com", 443, true, "*.example.com:443"},
		{"secret.example.com", 443, false, "secret.example.com"},
		{"x.secret.example.com", 443, true, "*.example.com:443"},
		{"x.evil.example.com", 443, false, "*.evil.example.com"},
		{"bad.example.org", 443, false, "bad.example.org"},
		{"half.example.org", 80, false, "half.example.org:80"},
		{"half.example.org", 443, true, "half.example.org"},
		{"10.0.0.5", 5432, false, ""}, // an address is not looked up as a name
		{"\x00.example.com", 443, false, ""},
		{"a\x00.example.com", 443, false, ""},
	} {
		v := s.Match(c.name, c.port)
		rule := ""
		if v.Rule != nil {
			rule = v.Rule.Text
		}
		if v.OK != c.ok || rule != c.rule || v.OK != (v.Reason == "") {
			t.Errorf("Match(%q, %d) = %v %q %q", c.name, c.port, v.OK, rule, v.Reason)
		}
	}
	for name, want := range map[string]bool{
		"github.com": true, "x.example.com": true, "example.com": false, "bad.example.org": false, "half.example.org": true, "x.evil.example.com": false,
		"Github.com": false, "10.0.0.5": false,
	} {
		if s.Allowed(name) != want {
			t.Errorf("Allowed(%q) = %v", name, !want)
		}
	}
	if got, want := s.Exact(), []string{"github.com", "api.github.com", "deep.a.example.com", "half.example.org"}; !slices.Equal(got, want) {
		t.Errorf("Exact() = %q", got)
	}
	for addr, want := range map[string]bool{"10.0.0.5": true, "::ffff:10.0.0.5": true, "10.0.0.6": false, "10.0.0.7": false} {
		if v := s.MatchAddr(netip.MustParseAddr(addr), 5432); v.OK != want {
			t.Errorf("MatchAddr(%s) = %v", addr, v)
		}
	}
	if v := s.MatchAddr(netip.MustParseAddr("2001:db8::1"), 443); !v.OK {
		t.Errorf("%v", v)
	}
	if v := s.MatchAddr(netip.MustParseAddr("2001:db8::2"), 443); v.OK || v.Remedy != `network.allow = ["[2001:db8::2]:443"]` {
		t.Errorf("%v", v)
	}
	if s.DeniesAddr(netip.MustParseAddr("::ffff:10.0.0.6"), 1) == nil || s.DeniesAddr(netip.MustParseAddr("10.0.0.5"), 1) != nil {
		t.Error("DeniesAddr")
	}
}

func TestEmptyAllowsNothing(t *testing.T) {
	for _, s := range []*Set{nil, parse(t, nil, nil), parse(t, nil, []string{"a.example"})} {
		if s.Allowed("github.com") || s.Match("github.com", 443).OK || s.MatchAddr(netip.MustParseAddr("1.2.3.4"), 443).OK || len(s.Exact()) > 0 || len(s.Entries()) > 0 {
			t.Errorf("%+v lets something through", s)
		}
	}
}

func TestPresets(t *testing.T) {
	if _, err := Parse([]string{"@gh"}, nil, nil); err == nil {
		t.Error("a preset that does not exist")
	}
	for _, entries := range []table{{"x": {"@gh"}}, {"x": {"*.com"}}, {}} {
		if _, err := Parse([]string{"@x"}, nil, entries); err == nil {
			t.Errorf("%v passed", entries)
		}
	}
	for _, name := range []string{"@", "@-x", "@../x", "@X", "@x/y", "@" + strings.Repeat("x", 33), "@x:443", "@x private"} {
		if _, err := Parse([]string{name}, nil, anything{}); err == nil {
			t.Errorf("%s passed", name)
		}
	}
	s := parse(t, []string{"github.com", "api.github.com", "a.example"}, []string{"@gh"})
	if s.Allowed("github.com") || s.Match("github.com", 80).OK || !s.Allowed("a.example") {
		t.Error("a denied preset denies its names at every port")
	}
	if _, err := Parse(slices.Repeat([]string{"a.example"}, maxEntries+1), nil, nil); err == nil {
		t.Error("no limit of entries")
	}
}

type anything struct{}

func (anything) Preset(string) ([]string, error) { return []string{"a.example"}, nil }

type broken struct{}

func (broken) Preset(string) ([]string, error) { return nil, errors.New("not to be approved") }

func TestNarrow(t *testing.T) {
	s := parse(t, []string{"@gh", "*.example.com:443", "x.example.com:443,8443 tls=any", "git.house:22 private", "10.0.0.5:5432"}, []string{"secret.example.com"})
	s.source = broken{} // what the set was made with is known
	for _, c := range []struct {
		entries []string
		ok      bool
	}{
		{nil, true},
		{[]string{"@gh"}, true},
		{[]string{"github.com:443"}, true},
		{[]string{"github.com"}, false}, // 80
		{[]string{"github.com:443", "other.example:443"}, false},
		{[]string{"a.example.com:443"}, true},
		{[]string{"*.a.example.com:443"}, true},
		{[]string{"*.example.com:443"}, true},
		{[]string{"example.com:443"}, false},
		{[]string{"*.xexample.com:443"}, false},
		{[]string{"x.example.com:443 tls=any"}, false}, // the wildcard shares name and port
		{[]string{"x.example.com:8443 tls=any"}, true},
		{[]string{"*.example.com:443 tls=any"}, false},
		{[]string{"x.example.com:443 ech"}, false},
		{[]string{"git.house:22"}, true},
		{[]string{"git.house:22 private"}, true},
		{[]string{"github.com:443 private"}, false},
		{[]string{"10.0.0.5:5432"}, true},
		{[]string{"10.0.0.5:5433"}, false},
		{[]string{"@other"}, false},
	} {
		n, err := s.Narrow(c.entries)
		if (err == nil) != c.ok {
			t.Errorf("%q: %v", c.entries, err)
		}
		if err == nil && n.Match("secret.example.com", 443).OK {
			t.Errorf("%q: the deny list is gone", c.entries)
		}
	}
	if _, err := (*Set)(nil).Narrow(nil); err == nil {
		t.Error("nothing can be narrowed")
	}
}

// TestNarrowOnlyNarrows: over many small policies, a narrowed set lets nothing through that the
// policy does not, and no check is looser.
func TestNarrowOnlyNarrows(t *testing.T) {
	names := []string{"e.x", "a.e.x", "b.a.e.x", "c.b.a.e.x"}
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func() (out []string) {
		for range 1 + rnd.IntN(3) {
			e := names[rnd.IntN(len(names))]
			wild := rnd.IntN(2) == 0
			if wild {
				e = "*." + e
			}
			e += []string{":1", ":2", ":1,2"}[rnd.IntN(3)] + []string{"", " tls=any", " ech"}[rnd.IntN(3)]
			if !wild && rnd.IntN(2) == 0 {
				e += " private"
			}
			out = append(out, e)
		}
		return out
	}
	narrowed := 0
	for range 20000 {
		p, a := pick(), pick()
		s := parse(t, p, nil)
		n, err := s.Narrow(a)
		if err != nil {
			continue
		}
		narrowed++
		for _, name := range append(names, "d.c.b.a.e.x", "z.e.x") {
			for port := range uint16(3) {
				vn, vs := n.Match(name, port), s.Match(name, port)
				if vn.OK && (!vs.OK || looser(vn.Rule, vs.Rule) != "") {
					t.Fatalf("policy %q, annotation %q: %s:%d passes by %q, policy %q", p, a, name, port, vn.Rule, vs.Rule)
				}
			}
		}
	}
	if narrowed < 500 {
		t.Errorf("only %d sets were narrowed", narrowed)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range append(bad, "*.a.b:1,2 private", "[2001:db8::1]:443 tls=any", "@gh", "münchen.example", "10.0.0.5:1") {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		s, err := Parse([]string{text}, []string{"denied.example"}, table{"gh": {"github.com"}})
		if err != nil {
			return
		}
		again, err := Parse(s.Entries(), s.Denied(), nil)
		if err != nil || !slices.Equal(again.Entries(), s.Entries()) {
			t.Fatalf("%q: %q: %v", text, s.Entries(), err)
		}
		if _, err := s.Narrow(s.Entries()); err != nil {
			t.Fatalf("a set does not cover itself: %v", err)
		}
		v := s.Match(name, 443)
		if c, err := Canonical(name); v.OK && (err != nil || c != name || !s.Allowed(name)) {
			t.Fatalf("%q lets %q through", text, name)
		}
		for _, r := range s.Rules() {
			if r.Name != "" && !r.Wildcard && r.Name == "denied.example" && v.OK {
				t.Fatal("denied comes first")
			}
		}
	})
}

func FuzzCanonical(f *testing.F) {
	for _, s := range bad {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		c, err := Canonical(name)
		if err != nil {
			return
		}
		if again, err := Canonical(c); err != nil || again != c {
			t.Fatalf("%q, %q: %v", c, again, err)
		}
		if strings.Trim(c, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Fatalf("%q", c)
		}
		if _, err := netip.ParseAddr(c); err == nil {
			t.Fatalf("%q is an address", c)
		}
	})
}

// table is a fixed table of presets.
type table map[string][]string

func (t table) Preset(name string) ([]string, error) {
	entries, ok := t[name]
	if !ok {
		return nil, fmt.Errorf("there is no preset @%s", name)
	}
	return entries, nil
}
