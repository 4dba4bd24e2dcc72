package egress

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/names/internal/wire"
	"agentjail.dev/runtime/spec/netrules"
)

// Bounds of a jail's open connections and queries.
const (
	maxConns      = 2048
	connBurst     = 1024 // new connections at once
	connPerSecond = 200  // and then: the rest waits in the accept queue
	dnsBurst      = 1 << 14
	dnsPerSecond  = 2000 // the rest waits in the socket's queue, and what has no room there is lost
	maxDNSConns   = 16
	dnsTime       = 5 * time.Second
)

// server serves a jail.
type server struct {
	set      atomic.Pointer[netrules.Set] // the rules in force
	flows    flows
	served   []uint16 // ports at which connections arrive; nil is all
	pool     *addrPool
	resolver *resolver
	events   *events
	rate     *bucket
	queries  *bucket       // of DNS queries
	slots    chan struct{} // of connections
	heads    *heads
	// approvals are the decisions on names that no rule has; nil where the policy has none.
	approvals *approvals
	// credentials are the credentials that the jail can use.
	credentials *credentials
}

func newServer(w *helperproto.Work, c *credentials, e *events, rt *routes) (*server, error) {
	set, err := netrules.Parse(w.Allow, w.Deny, nil)
	if err != nil {
		return nil, err
	}
	slots := make(chan struct{}, maxConns)
	out := &outbound{ports: w.Ports, crowded: func() bool { return len(slots) > fewConns }}
	s := &server{
		flows:    flows{m: map[*flow]struct{}{}},
		pool:     newAddrPool(slices.Concat(w.Pinned, set.Exact())), // names that had an address before keep it
		resolver: newResolver(w, rt, out), events: e,
		rate: newBucket(connBurst, perSecond()), queries: newBucket(dnsBurst, dnsPerSecond), slots: slots, heads: newHeads(),
		credentials: c,
	}
	s.set.Store(set)
	if w.Approval {
		s.approvals = newApprovals(w.Search)
		if w.Attended {
			s.approvals.expectUntil = time.Now().Add(expectTime)
		}
	}
	return s, nil
}

// name returns the address that stands for an allowed name in this jail, for the name service.
func (s *server) name(name string) (netip.Addr, bool) {
	if s.routed(name) != "" {
		return s.pool.addr(name)
	}
	if rules := s.set.Load(); !rules.Allowed(name) {
		if ok, reason := s.approvals.answers(name, rules); !ok {
			s.events.refusedName(name, reason, "network.allow in the policy")
			return netip.Addr{}, false
		}
	}
	return s.pool.addr(name)
}

// answerUDP answers queries over UDP until the socket is closed.
func (s *server) answerUDP(c *net.UDPConn, reply func([]byte, netip.AddrPort) error) {
	buf := make([]byte, wire.MaxQuery)
	for {
		time.Sleep(s.queries.take())
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			if fatal(err) {
				return
			}
			continue
		}
		if out := wire.AnswerDNS(buf[:n], true, s.name); out != nil {
			_ = reply(out, from)
		}
	}
}

// answerTCP is answerUDP for connections (RFC 1035, 4.2.2).
func (s *server) answerTCP(l *net.TCPListener) {
	slots := make(chan struct{}, maxDNSConns)
	for {
		slots <- struct{}{}
		time.Sleep(s.queries.take())
		c, err := l.AcceptTCP()
		if err != nil {
			<-slots
			if fatal(err) {
				return
			}
			continue
		}
		go func() {
			defer func() { c.Close(); <-slots }()
			s.answerStream(c)
		}()
	}
}

func (s *server) answerStream(c *net.TCPConn) {
	var length [2]byte
	for {
		if err := c.SetDeadline(time.Now().Add(dnsTime)); err != nil {
			return
		}
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(length[:]))
		if n > wire.MaxQuery {
			return
		}
		time.Sleep(s.queries.take())
		query := make([]byte, n)
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		out := wire.AnswerDNS(query, false, s.name)
		if out == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}

// accept accepts the jail's connections. The listeners share the bounds.
func (s *server) accept(l *net.TCPListener, serve func(*net.TCPConn)) {
	for {
		s.slots <- struct{}{}
		time.Sleep(s.rate.take())
		c, err := l.AcceptTCP()
		if err != nil {
			<-s.slots
			if fatal(err) {
				return
			}
			continue
		}
		if s.resolver.outbound.crowded() {
			smallInside(c)
		}
		go func() {
			defer func() { <-s.slots }()
			serve(c)
		}()
	}
}

// fatal reports whether a socket's error means that the socket is gone. After any other error, such
// as too many open files, it pauses the loop.
func fatal(err error) bool {
	if isClosed(err) {
		return true
	}
	time.Sleep(10 * time.Millisecond)
	return false
}
