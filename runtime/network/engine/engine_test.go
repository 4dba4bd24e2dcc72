package engine

import (
	"maps"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/network"
)

// TestDecide: the engine's network is taken where it is certain to be that.
func TestDecide(t *testing.T) {
	given := network.Decision{Mode: "engine", Namespace: network.Given}
	for _, c := range []struct {
		found network.Found
		want  network.Decision
	}{
		{network.Found{Pinned: true}, given},
		{network.Found{Jail: true, Mode: "engine"}, given},
		{network.Found{Mode: "engine"}, network.Decision{Mode: "engine", Namespace: network.Own}},
		{network.Found{Jail: true, Mode: "another"}, network.Decision{Mode: "another", Namespace: network.Joined}},
	} {
		if got := (Mode{}).Decide(c.found); got != c.want {
			t.Errorf("%+v: %+v", c.found, got)
		}
	}
}

// TestSettings: the delegate's configuration has no settings for a namespace that it does not
// contain.
func TestSettings(t *testing.T) {
	s := &specs.Spec{Linux: &specs.Linux{Sysctl: map[string]string{"net.core.somaxconn": "5", "net/ipv4/tcp_syncookies": "1", "kernel.shmmax": "7"}}}
	got := settings(s)
	if !maps.Equal(got, map[string]string{"core.somaxconn": "5", "ipv4.tcp_syncookies": "1"}) || !maps.Equal(s.Linux.Sysctl, map[string]string{"kernel.shmmax": "7"}) {
		t.Errorf("%v, and the delegate gets %v", got, s.Linux.Sysctl)
	}
}

// TestHosts: the host's own network is never opened, under any name.
func TestHosts(t *testing.T) {
	d := network.Decision{Mode: "engine", Namespace: network.Given}
	for _, path := range []string{"/proc/self/ns/net", "/nonexistent", "/etc/passwd"} {
		s := &specs.Spec{Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: specs.NetworkNamespace, Path: path}}}}
		if f, err := (Mode{}).Prepare(d, s); err == nil || f != nil {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
}
