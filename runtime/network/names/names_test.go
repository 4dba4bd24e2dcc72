package names

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/report"
)

// TestServers: the name servers of a resolv.conf as the C library takes them.
func TestServers(t *testing.T) {
	for text, want := range map[string][]string{
		"":                       {"127.0.0.1:53"},
		"nameserver\nsearch x\n": {"127.0.0.1:53"},
		"# nameserver 1.1.1.1\nnameserver 9.9.9.9 \nsearch a b\nnameserver fe80::1%eth0\n nameserver\t::1": {"9.9.9.9:53", "[fe80::1%eth0]:53", "[::1]:53"},
		"nameserver 1.1.1.1\nnameserver 1.1.1.2\nnameserver 1.1.1.3\nnameserver 1.1.1.4":                   {"1.1.1.1:53", "1.1.1.2:53", "1.1.1.3:53"},
		"nameserver example.org\nnameserver 127.0.0.53\n":                                                  {"127.0.0.53:53"},
	} {
		if got := servers(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestJoins: a jail is in another's network only if its own rules allow no less than those that hold there.
func TestJoins(t *testing.T) {
	first := network.Rules{Mode: name, Allow: []string{"a.example.org:443", "*.b.example.org:22"}, Deny: []string{"x.b.example.org"}}
	for _, c := range []struct {
		what string
		own  network.Rules
		ok   bool
	}{
		{"the same", first, true},
		{"more", network.Rules{Mode: name, Allow: []string{"*.example.org:443,22"}}, true},
		{"fewer names", network.Rules{Mode: name, Allow: []string{"a.example.org:443"}}, false},
		{"fewer ports", network.Rules{Mode: name, Allow: []string{"*.example.org:443"}}, false},
		{"nothing", network.Rules{Mode: name}, false},
		{"another name denied", network.Rules{Mode: name, Allow: first.Allow, Deny: []string{"y.b.example.org"}}, false},
		{"the engine's whole network", network.Rules{Mode: "engine"}, true},
	} {
		j := network.Jail{Rules: func() (network.Rules, error) { return c.own, nil }, Serving: func() (network.Rules, error) { return first, nil }}
		if err := joins(j); (err == nil) != c.ok || err != nil && !errors.Is(err, refusal.Err) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	gone := network.Jail{Rules: func() (network.Rules, error) { return first, nil }, Serving: func() (network.Rules, error) { return network.Rules{}, os.ErrNotExist }}
	if err := joins(gone); err == nil {
		t.Error("a network whose jail has ended is joined")
	}
}

// TestEmptyRoot: nothing can be made in the helper's root.
func TestEmptyRoot(t *testing.T) {
	dir := t.TempDir()
	f, err := emptyRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if r, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(f.Fd()))); err == nil {
		defer r.Close()
		if _, err := r.Create("x"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file is made: %v", err)
		}
	}
}

// TestReportFallback: the report and check describe a way for connections that is not the best, with
// its cost and the reason.
func TestReportFallback(t *testing.T) {
	for way, best := range map[string]bool{helperproto.SkLookup: true, helperproto.Redirect: false, helperproto.Listeners: false} {
		got := helperproto.Arrival{Way: way, Why: "sk_lookup: no"}
		a := judged(got)
		if a.OK != best || a.Warn == best || !strings.Contains(a.Detail, way) {
			t.Errorf("check: %s: %+v", way, a)
		}
		said := reportFallback(got)
		if best {
			if len(said) > 0 {
				t.Errorf("report: %s: %v", way, said)
			}
			continue
		}
		if helperproto.FallbackCost[way] == "" || len(said) != 1 || said[0].Kind != report.Missing {
			t.Fatalf("report: %s: %v", way, said)
		}
		for _, text := range []string{a.Detail, said[0].Why} {
			if !strings.Contains(text, helperproto.FallbackCost[way]) || !strings.Contains(text, "sk_lookup: no") {
				t.Errorf("%s: %s", way, text)
			}
		}
	}
}
