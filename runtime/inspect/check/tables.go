package check

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/spec/network"
)

// A bridge is an interface of the host's that connects containers, with a
// network whose addresses can all be requested.
type bridge struct {
	name string
	net  netip.Prefix
}

// bridges are the host's.
func bridges() ([]bridge, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var out []bridge
	for _, l := range links {
		if _, err := os.Stat(filepath.Join("/sys/class/net", l.Name, "bridge")); err != nil {
			continue
		}
		addresses, err := l.Addrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", l.Name, err)
		}
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && !p.Addr().IsLinkLocalUnicast() {
				out = append(out, bridge{l.Name, p.Masked()})
			}
		}
	}
	return out, nil
}

// neighbours compares the table of neighbours, of which the kernel has one for
// all network namespaces (arp(7), gc_thresh3), with the networks that jails can
// be in: a program that sends to each address of one has an entry for each.
func neighbours(e *env) answer {
	mode, err := modes.Named(e.policy.Network.Mode)
	if err != nil {
		return fail("network.mode in the policy", "%v", err)
	}
	if !mode.Terms(network.Decision{Mode: e.policy.Network.Mode, Namespace: network.Own}).EngineHook {
		return ok("no jail has its engine's network (network.mode = %q)", e.policy.Network.Mode)
	}
	have, err := e.bridges()
	if err != nil {
		return warn("look at `ip neighbour` and net.ipv4.neigh.default.gc_thresh3 by hand", "the host's bridges cannot be read: %v", err)
	}
	var less []string
	for _, b := range have {
		family := "ipv4"
		if b.net.Addr().Is6() {
			family = "ipv6"
		}
		name := "net." + family + ".neigh.default.gc_thresh3"
		n, err := e.numbers(name, 1)
		if err != nil {
			return warn("mount /proc/sys", "%s cannot be read: %v", name, err)
		}
		if free := b.net.Addr().BitLen() - b.net.Bits(); free > 32 || uint64(1)<<free > n[0] {
			less = append(less, fmt.Sprintf("%s (%s) has more addresses than the host may have neighbours (%s is %d)", b.name, b.net, name, n[0]))
		}
	}
	if len(less) == 0 {
		return ok("the %d networks of bridges have fewer addresses than the host may have neighbours", len(have))
	}
	return warn("networks with fewer addresses (a /22 has 1024; dockerd's bip and default-address-pools, no IPv6), or for IPv4 net.ipv4.neigh.default.gc_thresh1, 2 and 3 above them",
		"one jail can fill the table, and the host finds no new neighbour: %s", strings.Join(less, "; "))
}

// Connections that a jail with a network by name can have tracked: its helper's new ones in the
// time that an ended one is kept (nf_conntrack_tcp_timeout_time_wait).
const (
	trackedPerSecond = 200
	trackedAfter     = 120 // seconds, if the host does not report it
)

// tableShare is how many jails a host's table should be large enough for.
const tableShare = 4

// tracking compares the table of connections with what jails with a network by
// name can take of it. A host that tracks none has no such setting.
func tracking(e *env) answer {
	mode, err := modes.Named(e.policy.Network.Mode)
	if err != nil {
		return fail("network.mode in the policy", "%v", err)
	}
	if !mode.Terms(network.Decision{Mode: e.policy.Network.Mode, Namespace: network.Own}).ByRules {
		return ok("no jail has a network by name (network.mode = %q)", e.policy.Network.Mode)
	}
	most, err := e.numbers("net.netfilter.nf_conntrack_max", 1)
	if err != nil {
		return ok("the host tracks no connections")
	}
	kept := uint64(trackedAfter)
	if n, err := e.numbers("net.netfilter.nf_conntrack_tcp_timeout_time_wait", 1); err == nil {
		kept = n[0]
	}
	jail := kept * trackedPerSecond
	const format = "one jail with a network by name can have %d tracked (%d a second, kept %d s), and the host %d (net.netfilter.nf_conntrack_max)"
	if jail*tableShare > most[0] {
		return warn("raise net.netfilter.nf_conntrack_max, or lower net.netfilter.nf_conntrack_tcp_timeout_time_wait", format, jail, trackedPerSecond, kept, most[0])
	}
	return ok(format, jail, trackedPerSecond, kept, most[0])
}

// orphanCost is what a closed end takes of a jail's memory at least: a socket
// and one page of data.
const orphanCost = 6 << 10

// orphans compares what one jail may have of connections that are closed before
// their last data is taken with what the whole host may have (tcp(7),
// tcp_max_orphans). The kernel resets those of the host above that.
func orphans(e *env) answer {
	mode, err := modes.Named(e.policy.Network.Mode)
	if err != nil {
		return fail("network.mode in the policy", "%v", err)
	}
	all, err := e.numbers("net.ipv4.tcp_max_orphans", 1)
	if err != nil {
		return warn("mount /proc/sys", "net.ipv4.tcp_max_orphans cannot be read: %v", err)
	}
	jail, by, many := uint64(seal.MostConnections), "the ceiling on connections with itself", uint64(tableShare)
	if !mode.Terms(network.Decision{Mode: e.policy.Network.Mode, Namespace: network.Own}).OnlyLoopback {
		if jail, by, many = e.memoryLimit()/orphanCost, "limits.memory", 1; jail == 0 {
			return warn("set limits.memory", "nothing bounds the closed connections that one jail leaves, and the host may have %d (net.ipv4.tcp_max_orphans)", all[0])
		}
	}
	const format = "one jail can leave %d closed connections (%s), and the host %d (net.ipv4.tcp_max_orphans)"
	if jail*many > all[0] {
		return warn("raise net.ipv4.tcp_max_orphans, or set network.mode or limits.memory lower", format, jail, by, all[0])
	}
	return ok(format, jail, by, all[0])
}
