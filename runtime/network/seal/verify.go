package seal

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/network"
)

// Verify reads the namespace that netns is an open file of and returns one finding for every
// protection, in a fixed order. It changes nothing. An interface that was plugged in after Seal and
// is up makes "links" a failure only if the filter or the rules do not hold. The error is for a
// namespace that cannot be read; the same conditions as for Seal apply.
func Verify(netns *os.File) ([]network.Finding, error) {
	var out []network.Finding
	err := inNamespace(netns, func() (err error) {
		out, err = verify()
		return err
	})
	if err != nil {
		return out, fmt.Errorf("verify network seal: %w", err)
	}
	return out, nil
}

func verify() ([]network.Finding, error) {
	c, err := dial(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	defer c.close()
	ipv6 := hasIPv6()
	lo, links, err := c.links()
	if err != nil {
		return nil, err
	}
	addrs, err := c.addresses()
	if err != nil {
		return nil, err
	}
	routes, err := c.routes(unix.AF_INET)
	if err != nil {
		return nil, err
	}

	rules4 := finding(SealRules4, "", c.verifyRules(unix.AF_INET))
	rules6 := network.Finding{Name: SealRules6, OK: true, Detail: noIPv6}
	if ipv6 {
		rules6 = finding(SealRules6, "", c.verifyRules(unix.AF_INET6))
	}
	filter := finding(SealFilter, "", sealedTable().verified())
	return []network.Finding{
		verifyLoopback(lo, addrs),
		verifyLinks(links, addrs, filter.OK && rules4.OK && rules6.OK),
		rules4,
		rules6,
		filter,
		finding(SealWaiting, "", ceilingSealed.table().verified()),
		verifyResolver(routes),
		finding(SealSysctls, "", verifySysctls()),
	}, nil
}

func verifyLoopback(lo Link, addrs []address) network.Finding {
	if !lo.Up {
		return network.Finding{Name: SealLoopback, Detail: "lo is down"}
	}
	for _, a := range addrs {
		if a.link == loopback && a.foreign() {
			return network.Finding{Name: SealLoopback, Detail: fmt.Sprintf("lo has the address %s", a.prefix)}
		}
	}
	return network.Finding{Name: SealLoopback, OK: true}
}

// verifyLinks checks the interfaces. One that is up or has an address was added after the seal; the
// other protections decide whether that is a failure.
func verifyLinks(links []Link, addrs []address, filtered bool) network.Finding {
	var open, down []string
	for _, l := range links {
		switch hasAddress := slices.ContainsFunc(addrs, func(a address) bool { return a.link == l.Index }); {
		case l.Up:
			open = append(open, l.Name+" is up")
		case hasAddress:
			open = append(open, l.Name+" has an address")
		default:
			down = append(down, l.Name)
		}
	}
	switch {
	case len(open) > 0 && filtered:
		return network.Finding{
			Name: SealLinks, OK: true,
			Detail: strings.Join(open, ", ") + " (plugged in later; filter and rules hold)",
		}
	case len(open) > 0:
		return network.Finding{Name: SealLinks, Detail: strings.Join(open, ", ")}
	case len(down) > 0:
		return network.Finding{Name: SealLinks, OK: true, Detail: "down: " + strings.Join(down, ", ")}
	}
	return network.Finding{Name: SealLinks, OK: true, Detail: "only lo"}
}

func verifyResolver(routes []route) network.Finding {
	if slices.ContainsFunc(routes, route.isResolverGrave) {
		return network.Finding{Name: SealResolver, OK: true}
	}
	return network.Finding{Name: SealResolver, Detail: fmt.Sprintf("%s is reachable", resolver.Addr())}
}

func verifySysctls() error {
	d, err := openSysctls()
	if err != nil {
		return err
	}
	defer d.close()
	for _, s := range slices.Concat(sysctls4, sysctls6) {
		if err := d.check(s); err != nil {
			return err
		}
	}
	for _, b := range buffers {
		if err := d.checkBound(b); err != nil {
			return err
		}
	}
	return nil
}
