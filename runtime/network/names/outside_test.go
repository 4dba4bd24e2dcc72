package names

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/network"
)

// TestOutside: the helper connects from a namespace that the engine keeps as a file, and from no other that a bundle names.
func TestOutside(t *testing.T) {
	for _, c := range []struct {
		what  string
		found network.Found
		want  network.Decision
	}{
		{"none", network.Found{}, network.Decision{Mode: name, Namespace: network.Own}},
		{"kept as a file", network.Found{Pinned: true, Path: "/run/netns/a"}, network.Decision{Mode: name, Namespace: network.Own, Outside: "/run/netns/a"}},
		{"a process's", network.Found{Path: "/proc/9/ns/net"}, network.Decision{Mode: name, Namespace: network.Own}},
		{"a jail's", network.Found{Jail: true, Mode: name, Path: "/proc/9/ns/net"}, network.Decision{Mode: name, Namespace: network.Joined}},
	} {
		if got := (Mode{}).Decide(c.found); got != c.want {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
	file := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file + "-gone", "/proc/self/ns/net"} {
		if f, err := outside(network.Jail{Decision: network.Decision{Outside: path}}); f != nil || !errors.Is(err, refusal.Err) {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
}

// TestElsewhere: servers that another network namespace can reach.
func TestElsewhere(t *testing.T) {
	got := elsewhere([]string{"127.0.0.53:53", "9.9.9.9:53", "[::1]:53", "[fe80::1%eth0]:53", "127.0.0.1:5300"})
	if !slices.Equal(got, []string{"9.9.9.9:53", "[fe80::1%eth0]:53"}) {
		t.Errorf("%v", got)
	}
}
