package check

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/policy"
)

func TestNeighbours(t *testing.T) {
	on := func(nets ...string) func() ([]bridge, error) {
		return func() (out []bridge, err error) {
			for _, n := range nets {
				out = append(out, bridge{"br0", netip.MustParsePrefix(n)})
			}
			return out, nil
		}
	}
	for _, c := range []struct {
		name, mode string
		bridges    func() ([]bridge, error)
		ok         bool
		says       string
	}{
		{"another network", "none", on("172.17.0.0/16"), true, "no jail has its engine's network"},
		{"Docker's bridge", "engine", on("172.17.0.0/16"), false, "br0 (172.17.0.0/16) has more addresses"},
		{"as many as there may be", "engine", on("10.0.0.0/22"), true, "1 networks"},
		{"one more bit", "engine", on("10.0.0.0/24", "10.0.0.0/21"), false, "(10.0.0.0/21)"},
		{"IPv6", "engine", on("fd00::/64"), false, "net.ipv6.neigh.default.gc_thresh3 is 4096"},
		{"a small one of IPv6", "engine", on("fd00::/116"), true, "1 networks"},
		{"unreadable", "engine", func() ([]bridge, error) { return nil, errors.New("no") }, false, "cannot be read: no"},
	} {
		e := &env{policy: policy.Default(), bridges: c.bridges, sysctl: settings(t, map[string]string{
			"net/ipv4/neigh/default/gc_thresh3": "1024", "net/ipv6/neigh/default/gc_thresh3": "4096",
		})}
		e.policy.Network.Mode = c.mode
		if a := neighbours(e); a.ok != c.ok || !strings.Contains(a.detail, c.says) || !a.ok && (!a.warn || a.remedy == "") {
			t.Errorf("%s: %+v, not %v with %q", c.name, a, c.ok, c.says)
		}
	}
	if _, err := bridges(); err != nil {
		t.Error(err)
	}
}

func TestTracking(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		files      map[string]string
		ok         bool
		says       string
	}{
		{"another network", "none", nil, true, "no jail has a network by name"},
		{"none tracked", "names", nil, true, "tracks no connections"},
		{"the kernel's own", "names", map[string]string{"net/netfilter/nf_conntrack_max": "262144"}, true, "can have 24000"},
		{"a small table", "names", map[string]string{"net/netfilter/nf_conntrack_max": "65536"}, false, "can have 24000"},
		{"kept for less", "names", map[string]string{"net/netfilter/nf_conntrack_max": "65536", "net/netfilter/nf_conntrack_tcp_timeout_time_wait": "30"}, true, "can have 6000"},
	} {
		e := &env{policy: policy.Default(), sysctl: settings(t, c.files)}
		e.policy.Network.Mode = c.mode
		if a := tracking(e); a.ok != c.ok || !strings.Contains(a.detail, c.says) || !a.ok && (!a.warn || a.remedy == "") {
			t.Errorf("%s: %+v, not %v with %q", c.name, a, c.ok, c.says)
		}
	}
}

func TestOrphans(t *testing.T) {
	for _, c := range []struct {
		name, mode, most string
		memory           policy.Size
		ok               bool
		reports          string
	}{
		{"a sealed network", "none", "131072", 4 << 30, true, "can leave 8192"},
		{"by name", "names", "131072", 4 << 30, true, "can leave 8192"},
		{"a small host", "none", "16384", 4 << 30, false, "and the host 16384"},
		{"the engine's network", "engine", "131072", 4 << 30, false, "(limits.memory)"},
		{"a small jail there", "engine", "131072", 512 << 20, true, "can leave 87381"},
		{"an endless one", "engine", "131072", 0, false, "nothing bounds"},
	} {
		e := &env{policy: policy.Default(), sysctl: settings(t, map[string]string{"net/ipv4/tcp_max_orphans": c.most})}
		e.policy.Network.Mode, e.policy.Limits.Memory, e.host.Cgroup.Memory = c.mode, c.memory, true
		if a := orphans(e); a.ok != c.ok || !strings.Contains(a.detail, c.reports) || !a.ok && (!a.warn || a.remedy == "") {
			t.Errorf("%s: %+v, not %v with %q", c.name, a, c.ok, c.reports)
		}
	}
}
