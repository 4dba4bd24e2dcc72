// Package seal closes a network namespace so that nothing but its loopback interface works.
//
// Engines add interfaces to a container's namespace without the runtime: Docker 28 and later
// between create and start, every Docker at each `docker network connect`. So an empty namespace in
// the bundle is not enough. Start calls Seal after the engine's own set-up and before the workload
// runs. The protections also hold for interfaces that are added later:
//
//   - loopback: lo is up and has 127.0.0.1 and ::1 only, and in a network by name two more
//     addresses that lead nowhere;
//   - links: every other interface is down, without address or route; it is not deleted, since
//     engines read its statistics;
//   - rules-ipv4, rules-ipv6: policy routing consults no table but for lo;
//   - nftables: a filter drops packets from or to any interface but lo, and packets to Docker's
//     resolver;
//   - resolver: 127.0.0.11, through which Docker forwards names to the outside, is unreachable;
//   - waiting: a bounded number of connections waits to be accepted;
//   - sysctls: no forwarding, no ARP answers, no IPv6 on later interfaces, reverse path checked;
//     small buffers for sockets.
//
// Effects on an engine: its interfaces exist with their statistics, and a further network can be
// connected and disconnected. Only setting a default route after the seal fails with "network is
// unreachable" (tried with Docker 20.10), since the gateway is looked up by the same rules.
//
// The protections stop the workload's sockets of the families inet and inet6 without capabilities
// over the namespace. The capability and seccomp rings prevent packet sockets (CAP_NET_RAW), other
// families (vsock, TIPC) and changes to the protections (CAP_NET_ADMIN).
package seal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/network"
)

// The protections' names, as they appear in network.Finding.Name.
const (
	SealLoopback = "loopback"
	SealLinks    = "links"
	SealRules4   = "rules-ipv4"
	SealRules6   = "rules-ipv6"
	SealFilter   = "nftables"
	SealResolver = "resolver"
	SealWaiting  = "waiting"
	SealSysctls  = "sysctls"
)

// Report is the result of Seal.
type Report struct {
	Links       []Link            `json:"links,omitempty"`     // interfaces other than lo, as they were before
	Addresses   int               `json:"addresses,omitempty"` // addresses removed
	Routes      int               `json:"routes,omitempty"`    // routes removed
	Protections []network.Finding `json:"protections"`         // one for every protection, in a fixed order
}

// Missing returns the protections that failed. Seal returns an error if that leaves an opening. A
// protection that is missing without an error is a second one behind another.
func (r Report) Missing() []network.Finding { return missing(r.Protections) }

func missing(protections []network.Finding) []network.Finding {
	return slices.DeleteFunc(slices.Clone(protections), func(f network.Finding) bool { return f.OK })
}

func (r *Report) protection(name, detail string, err error) {
	r.Protections = append(r.Protections, finding(name, detail, err))
}

func finding(name, detail string, err error) network.Finding {
	if err != nil {
		return network.Finding{Name: name, Detail: err.Error()}
	}
	return network.Finding{Name: name, OK: true, Detail: detail}
}

// errNotSealed is wrapped by Seal's error if a protection is missing that no other one replaces.
var errNotSealed = errors.New("network namespace is not sealed")

// Seal closes the network namespace that netns is an open file of (/proc/<pid>/ns/net). It can be
// called again at any time: protections in force are kept, and interfaces that were added since are
// taken down.
//
// The caller needs CAP_SYS_ADMIN and CAP_NET_ADMIN over the namespace, and CAP_SYS_ADMIN in its own
// user namespace (setns(2)). The namespaces of the caller and of process 1 are refused. The report
// is valid also when an error is returned; the error wraps errNotSealed if a protection is missing
// that no other one replaces.
func Seal(netns *os.File) (Report, error) {
	return sealed(netns, false)
}

// SealByName is Seal for a namespace in which names are looked up: lo shows the C library that
// there are both families.
func SealByName(netns *os.File) (Report, error) {
	return sealed(netns, true)
}

func sealed(netns *os.File, families bool) (Report, error) {
	var r Report
	if err := inNamespace(netns, func() error { return r.seal(families) }); err != nil {
		return r, fmt.Errorf("seal network: %w", err)
	}
	return r, nil
}

// seal runs inside the namespace. The protections against later interfaces are made first, so that
// there is no gap.
func (r *Report) seal(families bool) error {
	c, err := dial(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open rtnetlink socket: %w", err)
	}
	defer c.close()
	ipv6 := hasIPv6()
	r.protection(SealRules4, "", c.sealRules(unix.AF_INET))
	if ipv6 {
		r.protection(SealRules6, "", c.sealRules(unix.AF_INET6))
	} else {
		r.protection(SealRules6, noIPv6, nil)
	}
	r.protection(SealFilter, "", sealedTable().load())
	r.protection(SealWaiting, "", ceilingSealed.bound())
	r.protection(SealResolver, "", c.sealResolver())
	lo, links, err := c.links()
	if err == nil {
		r.Links = links
		r.protection(SealLoopback, "", c.raise(lo))
		err = c.takeDown(r, ipv6)
	}
	if err == nil && families {
		err = c.showFamilies()
	}
	r.protection(SealLinks, linkDetail(r.Links), err)
	r.protection(SealSysctls, "", sealSysctls(r.Links))
	return opening(r.Protections)
}

const noIPv6 = "the kernel has no IPv6"

// hasIPv6 reports whether the kernel supports IPv6 (it may be built without, or booted with
// ipv6.disable=1).
func hasIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return !errors.Is(err, unix.EAFNOSUPPORT)
}

func sealSysctls(links []Link) error {
	d, err := openSysctls()
	if err != nil {
		return err
	}
	defer d.close()
	settings := slices.Concat(sysctls4, sysctls6)
	for _, l := range links {
		settings = append(settings, sysctl{"ipv6/conf/" + l.Name + "/disable_ipv6", "1"})
	}
	var errs []error
	for _, s := range settings {
		errs = append(errs, d.set(s))
	}
	for _, b := range buffers {
		errs = append(errs, d.lower(b))
	}
	return errors.Join(errs...)
}

// opening returns an error if the missing protections leave a way out: lo must work, the links must
// be closed, and either the filter stands or all of routing does. (Routing alone leaves an opening
// only after an interface was plugged in later, and only for a program that binds its socket to
// that interface. The report names the missing filter; whether that is fatal is policy.)
func opening(protections []network.Finding) error {
	ok := map[string]bool{}
	for _, f := range protections {
		ok[f.Name] = f.OK
	}
	fatal := !ok[SealLoopback] || !ok[SealLinks] || !ok[SealFilter] && !(ok[SealRules4] && ok[SealRules6] && ok[SealResolver])
	if !fatal {
		return nil
	}
	var why []string
	for _, f := range missing(protections) {
		why = append(why, f.Name+": "+f.Detail)
	}
	return fmt.Errorf("%w: %s", errNotSealed, strings.Join(why, "; "))
}

func linkDetail(links []Link) string {
	if len(links) == 0 {
		return "only lo"
	}
	var names []string
	for i, l := range links {
		if i == 8 {
			names = append(names, fmt.Sprintf("and %d more", len(links)-i))
			break
		}
		names = append(names, l.Name)
	}
	return "taken down: " + strings.Join(names, ", ")
}
