package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/spec/netrules"
)

const (
	resolveTime = 10 * time.Second
	cacheTime   = 10 * time.Second // changing answers cost one question in that time
	maxCached   = 4096
	dialTime    = 4 * time.Second  // for one address
	dialAll     = 10 * time.Second // for all of a name's
	maxTried    = 8                // addresses of a name
	maxLookups  = 128              // names that are looked up at once: an answer has up to 64 KiB
)

// resolver queries the host's name servers for exact names, without the host's search list and
// without its /etc/hosts.
type resolver struct {
	query    func(context.Context, string) ([]netip.Addr, error)
	kind     func(netip.Addr) (byte, error) // the type of the route to an address
	outbound *outbound
	hosts    []netip.Addr // the host's own addresses, where the helper's network namespace has others
	dialer   net.Dialer
	lookups  chan struct{}
	mu       sync.Mutex
	cache    map[string]answer
}

type answer struct {
	addrs []netip.Addr
	until time.Time
}

// newResolver returns a resolver for the work's servers. Go's resolver cannot read its
// configuration files under confinement, so Dial chooses the server.
func newResolver(w *helperproto.Work, rt *routes, out *outbound) *resolver {
	servers := w.Servers
	var next atomic.Uint32
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if len(servers) == 0 {
			return nil, errors.New("the host has no name server")
		}
		d := net.Dialer{Timeout: dialTime, Control: out.control}
		return d.DialContext(ctx, network, servers[int(next.Add(1)-1)%len(servers)])
	}}
	return &resolver{
		cache: map[string]answer{}, outbound: out, dialer: net.Dialer{Control: out.control}, kind: rt.kind, hosts: w.Host,
		lookups: make(chan struct{}, maxLookups), query: func(ctx context.Context, name string) ([]netip.Addr, error) {
			return r.LookupNetIP(ctx, "ip", name+".")
		},
	}
}

// lookup returns a name's addresses.
func (r *resolver) lookup(name string) ([]netip.Addr, error) {
	now := time.Now()
	r.mu.Lock()
	a, ok := r.cache[name]
	r.mu.Unlock()
	if ok && now.Before(a.until) {
		return a.addrs, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTime)
	defer cancel()
	select {
	case r.lookups <- struct{}{}:
	case <-ctx.Done():
		return nil, errors.New("too many names are looked up")
	}
	addrs, err := r.query(ctx, name)
	<-r.lookups
	if err != nil {
		return nil, err
	}
	// Only as many addresses are kept as are tried: a hostile name server could fill the helper's
	// memory.
	addrs = slices.Clone(addrs[:min(len(addrs), maxTried)])
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.cache) >= maxCached {
		clear(r.cache)
	}
	r.cache[name] = answer{addrs, now.Add(cacheTime)}
	return addrs, nil
}

// dial connects to the first address that answers, among those that the rule allows. It dials
// exactly the address that was checked.
func (r *resolver) dial(set *netrules.Set, addrs []netip.Addr, port uint16, rule *netrules.Rule) (*net.TCPConn,
	netip.Addr, error,
) {
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), dialAll)
	defer cancel()
	for _, a := range addrs[:min(len(addrs), maxTried)] {
		if err := r.fit(set, a, port, rule); err != nil {
			errs = append(errs, &unfit{err})
			continue
		}
		one, stop := context.WithTimeout(ctx, dialTime)
		c, err := r.dialer.DialContext(one, "tcp", netip.AddrPortFrom(a, port).String())
		stop()
		if err == nil {
			return c.(*net.TCPConn), a, nil
		}
		errs = append(errs, r.outbound.used(err))
	}
	return nil, netip.Addr{}, errors.Join(errs...)
}

// fit returns an error if an address that a name resolved to may not be reached. Only a unicast
// route to another host is allowed, not an address of this host, a broadcast or a multicast group.
func (r *resolver) fit(set *netrules.Set, a netip.Addr, port uint16, rule *netrules.Rule) error {
	if r := set.DeniesAddr(a, port); r != nil {
		return fmt.Errorf("%s is denied by %q", a, r.Source())
	}
	kind, err := r.kind(a)
	own := func(a netip.Addr) bool { return kind == unix.RTN_LOCAL || slices.Contains(r.hosts, a.Unmap()) }
	if err := judgeAddr(a, rule, own); err != nil {
		return err
	}
	if err == nil && kind != unix.RTN_UNICAST {
		err = fmt.Errorf("%s is no address of one machine", a)
	}
	return err
}

// unfit is the error for an address that may not be reached.
type unfit struct{ err error }

// Error returns the reason.
func (e *unfit) Error() string { return e.err.Error() }

// remedy is the entry for an exact name that may lead to such an address; "" where none may.
func (e *unfit) remedy(name string, port uint16) string {
	if !errors.Is(e.err, errPrivate) {
		return ""
	}
	return fmt.Sprintf("network.allow = [%q]", fmt.Sprintf("%s:%d private", name, port))
}
