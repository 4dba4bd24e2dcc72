package names

import (
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/network"
)

// TestJoinsCredentials: a jail joins a network with a credential only if its own policy has the same one; the placeholder is each jail's.
func TestJoinsCredentials(t *testing.T) {
	with := func(from, placeholder string) network.Rules {
		return network.Rules{Mode: name, Allow: []string{"a.example.test"}, Credentials: credential.Set{
			"house": {Hosts: []string{"a.example.test"}, Header: "x-key", From: from, Placeholder: placeholder},
		}}
	}
	none := network.Rules{Mode: name, Allow: []string{"a.example.test"}}
	for _, c := range []struct {
		what       string
		first, own network.Rules
		refused    bool
	}{
		{"the same", with("file:/k", "one"), with("file:/k", "two"), false},
		{"another value", with("file:/k", "one"), with("file:/other", "one"), true},
		{"none of its own", with("file:/k", "one"), none, true},
		{"one more of its own", none, with("file:/k", "one"), false},
	} {
		err := checkCovered(c.first, c.own)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "credentials.house") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
