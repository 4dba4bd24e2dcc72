package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/names/internal/jailsock"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/network"
)

// flows are the connections that a rule has allowed. The rules change while the lock is held, so
// that each connection is either in the table or judged by the new rules.
type flows struct {
	mu sync.Mutex
	m  map[*flow]struct{}
}

// reserveAddresses keeps the addresses that an earlier helper may have assigned from wildcard
// names. The file records them.
func (s *server) reserveAddresses(next int, file io.Writer) {
	s.pool.startFrom(next, func(below int) bool {
		_, err := fmt.Fprintf(file, "%d\n", below)
		return err == nil
	})
}

// verdict matches rules against a connection's name, or its address.
func (f *flow) verdict(set *netrules.Set) netrules.Verdict {
	if f.literal.IsValid() {
		return set.MatchAddr(f.literal, f.port)
	}
	if f.approved != nil && !set.Named(f.name) {
		if why := f.s.approvals.over(f.approved); why != "" {
			return netrules.Verdict{Reason: why}
		}
		return netrules.Verdict{OK: true, Rule: f.approved.rule}
	}
	return set.Match(f.name, f.port)
}

// enter adds an allowed connection to the table, unless the rules have changed since.
func (f *flow) enter() bool {
	f.s.flows.mu.Lock()
	f.under = f.s.set.Load()
	v := f.verdict(f.under)
	if v.OK {
		f.rule = v.Rule
		f.s.flows.m[f] = struct{}{}
	}
	f.s.flows.mu.Unlock()
	if !v.OK {
		f.refuse(v.Reason, v.Remedy)
		reset(f.client)
	}
	return v.OK
}

func (f *flow) leave() {
	f.s.flows.mu.Lock()
	defer f.s.flows.mu.Unlock()
	delete(f.s.flows.m, f)
}

// gone returns why new rules have ended the connection, or "".
func (f *flow) gone() string {
	f.s.flows.mu.Lock()
	defer f.s.flows.mu.Unlock()
	return f.revokedReason
}

// connected records the connection outside, unless the rules have changed since it was begun.
func (f *flow) connected(up *net.TCPConn, addr netip.Addr) bool {
	f.s.flows.mu.Lock()
	f.up, f.addr = up, addr
	if set := f.s.set.Load(); f.revokedReason == "" && set != f.under {
		f.revokedReason = f.lost(set)
	}
	why := f.revokedReason
	f.s.flows.mu.Unlock()
	if why != "" {
		f.refuse(why, "")
		reset(up)
		reset(f.client)
	}
	return why == ""
}

// lost returns why rules do not allow a connection any more, or "".
func (f *flow) lost(set *netrules.Set) string {
	v := f.verdict(set)
	if !v.OK {
		return v.Reason
	}
	if r := v.Rule; r.TLS != netrules.TLSAny && (f.rule.TLS == netrules.TLSAny || f.rule.ECH && !r.ECH) {
		return "its rule has lost an option"
	}
	if f.addr.IsValid() {
		if err := f.s.resolver.fit(set, f.addr, f.port, v.Rule); err != nil {
			return err.Error()
		}
	}
	return ""
}

// handleRequest executes a request of the starter. If the answer cannot be delivered, the rules on
// record are those that the former and the new rules both allow (lifecycle.ReloadNetwork). The
// function undelivered then applies the same rules.
func (s *server) handleRequest(r helperproto.Request) (a helperproto.Answer, undelivered func(), err error) {
	former := s.set.Load()
	switch r.Verb {
	case helperproto.State:
		return helperproto.Answer{Digest: former.Digest()}, func() {}, nil
	case helperproto.Waiting:
		return helperproto.Answer{Waiting: s.approvals.list()}, func() {}, nil
	case helperproto.Decide:
		a, err := s.decide(r.Decision)
		// A decision whose sender does not know of it is in no journal.
		return a, func() { s.approvals.withdraw(*r.Decision); s.revoke(nil) }, err
	}
	set, err := netrules.Parse(r.Allow, r.Deny, nil)
	if err != nil {
		return a, nil, err
	}
	both, err := former.With(set)
	if err != nil {
		return a, nil, err
	}
	return s.change(set), func() { s.change(both) }, nil
}

// decide puts a decision in force, and ends the connections that it does not allow any more: now,
// and when its time is over.
func (s *server) decide(v *network.Approval) (a helperproto.Answer, err error) {
	if v == nil {
		return a, errors.New("there is no decision")
	}
	if err := s.approvals.decide(*v, s.set.Load()); err != nil {
		return a, err
	}
	if v.Allow && v.For > 0 {
		time.AfterFunc(v.For, func() { s.revoke(nil) })
	}
	return helperproto.Answer{Ended: s.revoke(nil)}, nil
}

// change applies new rules, and ends the connections that they do not allow. Names keep their
// addresses.
func (s *server) change(set *netrules.Set) helperproto.Answer {
	s.pool.pin(set.Exact())
	a := helperproto.Answer{Ended: s.revoke(set)}
	s.events.forget()
	if s.served == nil {
		return a
	}
	a.Unserved = slices.DeleteFunc(jailsock.Ports(set), func(p uint16) bool { return slices.Contains(s.served, p) })
	return a
}

// revoke puts new rules in force, if there are any, ends the connections that the rules and the
// decisions do not allow, and returns the number of these.
func (s *server) revoke(next *netrules.Set) int {
	var ended []*flow
	s.flows.mu.Lock()
	if next != nil {
		s.set.Store(next)
	}
	set := s.set.Load()
	for f := range s.flows.m {
		if f.revokedReason != "" {
			continue
		}
		if f.revokedReason = f.lost(set); f.revokedReason != "" {
			ended = append(ended, f)
		}
	}
	s.flows.mu.Unlock()
	for _, f := range ended {
		f.withdraw()
	}
	return len(ended)
}

// withdraw ends a connection whose rule is gone. The connection's own goroutines notice the end and
// log it.
func (f *flow) withdraw() {
	f.s.flows.mu.Lock()
	up := f.up
	f.s.flows.mu.Unlock()
	reset(f.client)
	if up != nil {
		reset(up)
	}
}
