package egress

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"agentjail.dev/runtime/network/names/internal/http1"
	"agentjail.dev/runtime/network/names/internal/wire"
	"agentjail.dev/runtime/spec/netrules"
)

// There are two proxies for programs that require one. Their requests are handled like every other
// connection. Addresses in rules can be reached only through a proxy: the jail has no route to
// them.

// connect serves a client of the HTTP proxy (CONNECT).
func (s *server) connect(c *net.TCPConn) {
	defer c.Close()
	f := &flow{s: s, client: c, begun: time.Now()}
	if c.SetDeadline(time.Now().Add(helloTime)) != nil {
		return
	}
	h := s.heads.of(c)
	r := bufio.NewReader(h)
	t, err := wire.ReadConnect(r)
	h.done()
	if err == nil && r.Buffered() > 0 {
		err = &http1.Error{Status: 400, Reason: "data before the answer to CONNECT"}
	}
	if err != nil {
		f.refuse(err.Error(), "")
		f.deny(http1.Refusal(err))
		return
	}
	if err := f.aim(t); err != nil {
		f.deny(http1.Refusal(err))
		return
	}
	f.granted(wire.Established())
}

// socks serves a client of SOCKS5.
func (s *server) socks(c *net.TCPConn) {
	defer c.Close()
	f := &flow{s: s, client: c, begun: time.Now()}
	if c.SetDeadline(time.Now().Add(helloTime)) != nil {
		return
	}
	t, err := wire.ReadSOCKS5(c)
	if err != nil {
		f.refuse(err.Error(), "")
		linger(c) // it has its answer
		return
	}
	if f.aim(t) != nil {
		f.deny(wire.SOCKSReply(wire.SOCKSNotAllowed))
		return
	}
	f.granted(wire.SOCKSReply(wire.SOCKSGranted))
}

// aim judges the target of a proxy's client. An address that stands for a name is treated as that
// name.
func (f *flow) aim(t wire.Target) error {
	f.name, f.port = t.Name, t.Port
	var v netrules.Verdict
	switch {
	case t.Name != "":
		v = f.judgedLater()
	case netrules.Pool.Contains(t.Addr):
		name, ok := f.s.pool.name(t.Addr)
		if !ok {
			f.name, v = t.Addr.String(), netrules.Verdict{
				Reason: fmt.Sprintf("%s stands for no name", t.Addr),
				Remedy: "look the name up first",
			}
			break
		}
		f.name = name
		v = f.judgedLater()
	default:
		f.name, f.literal, v = t.Addr.String(), t.Addr, f.s.set.Load().MatchAddr(t.Addr, t.Port)
	}
	if !v.OK {
		f.refuse(v.Reason, v.Remedy)
		return &http1.Error{Status: 403, Reason: v.Reason}
	}
	f.rule = v.Rule
	return nil
}

// judgedLater is judged for a client whose time runs already: it does not while a decision is
// waited for.
func (f *flow) judgedLater() netrules.Verdict {
	_ = f.client.SetDeadline(time.Time{})
	v := f.judged()
	_ = f.client.SetDeadline(time.Now().Add(helloTime))
	return v
}

// granted answers a proxy's client, and serves the connection as one to the name itself. TLS and
// HTTP are checked for the name.
func (f *flow) granted(answer []byte) {
	if _, err := f.client.Write(answer); err != nil || f.client.SetDeadline(time.Time{}) != nil {
		return
	}
	f.serve()
}

// deny sends a refusal to the client, as the last data.
func (f *flow) deny(answer []byte) {
	_ = f.client.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = f.client.Write(answer)
	linger(f.client)
}

// targets returns the addresses outside to try for a flow.
func (f *flow) targets() ([]netip.Addr, error) {
	if f.literal.IsValid() {
		return []netip.Addr{f.literal}, nil
	}
	addrs, err := f.s.resolver.lookup(f.name)
	if err == nil && len(addrs) == 0 {
		err = errors.New("the name has no address")
	}
	return addrs, err
}
