package seal

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestVerifyRedirect: only the redirect that was made holds, in a namespace whose seal holds with it.
func TestVerifyRedirect(t *testing.T) {
	s := newSpace(t)
	if _, err := Seal(s.file); err != nil {
		t.Fatal(err)
	}
	to := Target{netip.MustParsePrefix("127.64.0.0/10"), 4711, []Service{{unix.IPPROTO_UDP, 53, 4712}, {unix.IPPROTO_TCP, 53, 4713}}}
	other := func(change func(*Target)) *chainTable {
		t := to
		t.Services = slices.Clone(to.Services)
		change(&t)
		return redirect(t)
	}
	if err := VerifyRedirect(s.file, Target{Range: to.Range}); err != nil {
		t.Errorf("without one: %v", err)
	}
	if err := VerifyRedirect(s.file, to); err == nil {
		t.Error("none holds for one")
	}
	first := func(t *chainTable, chain int) *nftRule { return &t.chains[chain].rules[0] }
	for _, tt := range []struct {
		what string
		do   func(*chainTable)
	}{
		{"a rule more", func(t *chainTable) {
			t.chains[1].rules = append(t.chains[1].rules, nftRule{{kind: "immediate", verdict: nfAccept}})
		}},
		{"a rule less", func(t *chainTable) { t.chains[1].rules = t.chains[1].rules[:1] }},
		{"another port", func(t *chainTable) { *t = *other(func(o *Target) { o.Port++ }) }},
		{"another service", func(t *chainTable) { *t = *other(func(o *Target) { o.Services[0].Port++ }) }},
		{"a service elsewhere", func(t *chainTable) { *t = *other(func(o *Target) { o.Services[1].At++ }) }},
		{"a service by another protocol", func(t *chainTable) { *t = *other(func(o *Target) { o.Services[0].Protocol = unix.IPPROTO_TCP }) }},
		{"a service less", func(t *chainTable) { *t = *other(func(o *Target) { o.Services = nil }) }},
		{"another range", func(t *chainTable) { *t = *other(func(o *Target) { o.Range = netip.MustParsePrefix("127.0.0.0/10") }) }},
		{"a narrower range", func(t *chainTable) { *t = *other(func(o *Target) { o.Range = netip.MustParsePrefix("127.64.0.0/11") }) }},
		{"all addresses", func(t *chainTable) { r := first(t, 0); *r = (*r)[3:] }},
		{"dropped in place of an answer", func(t *chainTable) { r := *first(t, 1); r[len(r)-1] = nftExpr{kind: "immediate", verdict: nfDrop} }},
		{"a chain more", func(t *chainTable) {
			t.chains = append(t.chains, nftChain{"more", "nat", nfAccept, unix.NF_INET_LOCAL_OUT, -101, nil})
		}},
		{"a chain less", func(t *chainTable) { t.chains = t.chains[:1] }},
		{"another policy", func(t *chainTable) { t.chains[1].policy = nfDrop }},
		{"another place", func(t *chainTable) { t.chains[1].priority = 1 }},
	} {
		if err := Redirect(s.file, to); err != nil { // it replaces what the case before has left
			t.Fatalf("before %s: %v", tt.what, err)
		}
		if err := VerifyRedirect(s.file, to); err != nil {
			t.Fatalf("before %s: %v", tt.what, err)
		}
		table := redirect(to)
		tt.do(table)
		if err := inNamespace(s.file, table.load); err != nil {
			t.Fatalf("%s: %v", tt.what, err)
		}
		if err := VerifyRedirect(s.file, to); err == nil {
			t.Errorf("%s: it is stated to hold", tt.what)
		}
		if err := VerifyRedirect(s.file, Target{Range: to.Range}); err == nil || !strings.Contains(err.Error(), "not made for this jail") {
			t.Errorf("%s, where none was made: %v", tt.what, err)
		}
	}
	found, err := Verify(s.file)
	for _, f := range found {
		if !f.OK {
			t.Errorf("the seal's %s: %s", f.Name, f.Detail)
		}
	}
	if err != nil {
		t.Error(err)
	}
}
