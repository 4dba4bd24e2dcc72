package harden

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

// TestCredentials: a jail whose own network allows a credential's host has its placeholder, and others do not.
func TestCredentials(t *testing.T) {
	const cert = "-----BEGIN CERTIFICATE-----\n"
	pol := policy.Default()
	pol.Network.Mode, pol.Network.Allow = policy.NetworkNames, []string{"api.example.test"}
	pol.Credentials = credential.Set{
		"a": {Hosts: []string{"api.example.test"}, Header: "x-a", From: "file:/a", Env: "A_TOKEN"},
		"b": {Hosts: []string{"b.example.test"}, Header: "x-b", From: "file:/b", Env: "B_TOKEN", TLS: credential.TLSEnd},
	}
	ends := pol
	ends.Credentials = credential.Set{"a": pol.Credentials["a"]}
	c := ends.Credentials["a"]
	c.TLS = credential.TLSEnd
	ends.Credentials["a"] = c
	other := pol
	other.Network.Mode = policy.NetworkNone
	for _, w := range []struct {
		what     string
		pol      policy.Policy
		own      bool // the jail has placeholders
		env      []string
		want     string
		trusts   bool
		reported int
	}{
		{"a user's engine", pol, true, nil, "", false, 0},
		{"its own network", pol, true, nil, "own-a", false, 1},
		{"a variable of its own", pol, true, []string{"A_TOKEN=x"}, "x", false, 1},
		{"explain", pol, false, nil, "", false, 1},
		{"an end of TLS", ends, true, nil, "own-a", true, 1},
		{"another mode", other, true, nil, "", false, 0},
	} {
		s := with(func(s *specs.Spec) { s.Process.Env = slices.Clone(w.env) })
		f := testFacts(s)
		if w.own {
			f.Placeholders, f.Authority = map[string]string{"a": "own-a", "b": "own-b"}, cert
		}
		f.Host.Rootless = w.what == "a user's engine"
		res, rep, err := Harden(s, w.pol, f)
		if err != nil {
			t.Fatalf("%s: %v", w.what, err)
		}
		again, _, err := Process(s.Process, res.Policy, testFacts(s))
		if err != nil {
			t.Fatalf("%s: %v", w.what, err)
		}
		for _, env := range [][]string{res.Spec.Process.Env, again.Env} {
			a, _ := lookUp(env, "A_TOKEN")
			_, b := lookUp(env, "B_TOKEN")
			_, trusts := lookUp(env, "SSL_CERT_FILE")
			if a != w.want || b || trusts != w.trusts {
				t.Errorf("%s: %q", w.what, env)
			}
		}
		if (res.Plan.Authority != "") != w.trusts {
			t.Errorf("%s: the authority is %q", w.what, res.Plan.Authority)
		}
		if n := len(find(rep, report.Set, "credentials.*")); n != w.reported {
			t.Errorf("%s: %d in the report: %v", w.what, n, rep.Changes)
		}
		set, err := netrules.Parse(w.pol.Network.Allow, nil, nil)
		if err != nil || len(w.pol.Credentials.Usable(set)) != 1 || w.pol.Credentials["a"].Own() {
			t.Errorf("%s: the host's policy has changed: %+v, %v", w.what, w.pol.Credentials, err)
		}
	}
}

// TestKeysForSSH: a jail whose own network allows a key's host knows its helper there, by its port too, and has no variable for it.
func TestKeysForSSH(t *testing.T) {
	pol := policy.Default()
	pol.Network.Mode, pol.Network.Allow = policy.NetworkNames, []string{"git.example.test:22,2222"}
	pol.Credentials = credential.Set{
		"a": {Hosts: []string{"git.example.test", "git.example.test:2222"}, SSH: "git", From: "file:/a", KnownHosts: "/k"},
		"b": {Hosts: []string{"git.example.test:2200"}, SSH: "git", From: "file:/b", KnownHosts: "/k"},
	}
	s := with(func(*specs.Spec) {})
	f := testFacts(s)
	f.Placeholders, f.HostKey = map[string]string{"a": "own-a", "b": "own-b"}, "ssh-ed25519 AAAA"
	res, rep, err := Harden(s, pol, f)
	if err != nil {
		t.Fatal(err)
	}
	if want := "[git.example.test]:2222 ssh-ed25519 AAAA\ngit.example.test ssh-ed25519 AAAA\n"; res.Plan.KnownHosts != want || res.Plan.Authority != "" {
		t.Errorf("%q", res.Plan.KnownHosts)
	}
	for _, e := range res.Spec.Process.Env {
		if strings.Contains(e, "own-") {
			t.Errorf("variable %s", e)
		}
	}
	if n, dropped := len(find(rep, report.Set, "credentials.a")), len(find(rep, report.Dropped, "credentials.b")); n != 2 || dropped != 1 {
		t.Errorf("%d and %d in the report: %v", n, dropped, rep.Changes)
	}
}
