package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/network/names/internal/wire"
	"agentjail.dev/runtime/spec/netrules"
)

const (
	// helloTime is how long a client may take to send its first message, if it has to send first.
	helloTime = 10 * time.Second
	// tlsHandshake begins a TLS record with a ClientHello (RFC 8446, 5.1).
	tlsHandshake = 0x16
)

const (
	portHTTP  = 80
	portHTTPS = 443
)

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) || errors.Is(err, unix.EINVAL) }

// flow is one connection of the jail.
type flow struct {
	s      *server
	client *net.TCPConn
	name   string
	// literal is the address that a proxy's client requested in place of a name; name is then the
	// address as text.
	literal netip.Addr
	port    uint16
	rule    *netrules.Rule
	under   *netrules.Set // the rule's set
	// approved is the decision that allows the connection without a rule; nil for none.
	approved *decision
	begun    time.Time
	addr     netip.Addr
	head     *head // the client's data that is kept until the server has it; nil for none
	// credential has the names of the credentials that are set in the requests.
	credential string
	// up is the connection outside, and revokedReason why new rules have ended it. The table's lock
	// protects both, and addr.
	up            *net.TCPConn
	revokedReason string
	sent          atomic.Int64
	got           atomic.Int64
}

// connection serves one connection. Its destination address stands for a name.
func (s *server) connection(c *net.TCPConn, destination func(*net.TCPConn) (netip.AddrPort, error)) {
	defer c.Close()
	at, err := destination(c)
	f := &flow{s: s, client: c, port: at.Port(), begun: time.Now()}
	if err != nil {
		f.refuse(err.Error(), "")
		reset(c)
		return
	}
	// A name that is held keeps its address.
	var ok bool
	if f.name, ok = s.pool.name(at.Addr()); !ok || !s.pool.hold(f.name) {
		f.addr = at.Addr()
		f.refuse(fmt.Sprintf("%s stands for no name", at.Addr()), "look the name up first")
		reset(c)
		return
	}
	defer s.pool.release(f.name)
	if host := s.routed(f.name); host != "" {
		f.route(host)
		return
	}
	v := f.judged()
	if !v.OK {
		f.refuse(v.Reason, v.Remedy)
		reset(c)
		return
	}
	f.rule = v.Rule
	f.serve()
}

func (f *flow) serve() {
	if !f.enter() {
		return
	}
	defer f.leave()
	switch {
	case f.literal.IsValid(): // a rule for an address is for every protocol
		f.relayUnknown()
	case f.endsSSH():
		f.ssh()
	case f.port == portHTTP:
		f.http()
	case f.port == portHTTPS && f.rule.TLS != "any", f.endsTLS():
		f.tls()
	default:
		f.relayUnknown()
	}
}

// judged returns the verdict on the flow's name and port. If no rule has the name, it waits for a
// decision.
func (f *flow) judged() netrules.Verdict {
	rules := f.s.set.Load()
	v := rules.Match(f.name, f.port)
	if v.OK || f.s.approvals == nil || rules.Named(f.name) {
		return v
	}
	d, reason := f.s.approvals.await(target{f.name, f.port}, rules)
	if d == nil {
		return netrules.Verdict{Reason: reason, Remedy: v.Remedy}
	}
	f.approved = d
	return netrules.Verdict{OK: true, Rule: d.rule}
}

// endsTLS reports whether TLS is ended for a credential. No credential follows an approval.
func (f *flow) endsTLS() bool {
	return f.approved == nil && f.s.credentials.ends(f.name, f.port)
}

// endsSSH reports whether ssh is ended for a credential.
func (f *flow) endsSSH() bool {
	return f.approved == nil && f.s.credentials.endpoints[f.endpoint()] != ""
}

// refuse logs a connection that is not made.
func (f *flow) refuse(reason, remedy string) {
	e := f.event(decisions.Connect, refused)
	if why := f.gone(); why != "" {
		reason, remedy = why, ""
	}
	e.Reason, e.Remedy = reason, remedy
	f.s.events.add(e)
}

func (f *flow) event(what, verdict string) decisions.Event {
	e := decisions.Event{What: what, Verdict: verdict, Name: f.name, Port: f.port, Credential: f.credential}
	if f.rule != nil {
		e.Rule = f.rule.Source()
	}
	if f.addr.IsValid() {
		e.Address = f.addr.String()
	}
	return e
}

// tls allows a connection if the client requests the name in the clear, and otherwise refuses it
// with an alert.
func (f *flow) tls() {
	if f.client.SetReadDeadline(time.Now().Add(helloTime)) != nil {
		return
	}
	f.head = f.s.heads.of(f.client)
	defer f.head.done()
	h, err := f.hello()
	if err != nil {
		f.deny(wire.AccessDenied()) // clients then report "access denied"
		return
	}
	if f.client.SetReadDeadline(time.Time{}) != nil {
		return
	}
	if f.endsTLS() {
		f.endTLS(h.Raw)
		return
	}
	up := f.dial()
	if up == nil {
		return
	}
	defer hangUp(up)
	f.relay(up, h.Raw)
}

// hello reads the client's ClientHello and checks it for the name. A refusal is logged.
func (f *flow) hello() (wire.Hello, error) {
	h, err := wire.ReadHello(f.head)
	if err == nil {
		err = wire.CheckHello(h, f.name, f.rule)
	}
	if err != nil {
		f.head.done()
		f.refuse(err.Error(), "")
	}
	return h, err
}

// linger ends a connection so that the client reads the last data: unread data of the client's
// would turn the end into a reset.
func linger(c *net.TCPConn) {
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 64<<10))
}

// relayUnknown relays a protocol that is not parsed, in which the server may send first. If the
// client sends a ClientHello, it is checked for the name.
func (f *flow) relayUnknown() {
	up := f.dial()
	if up == nil {
		return
	}
	defer hangUp(up)
	f.relay(up, nil)
}

// dial connects outside. It returns nil if it cannot; then the refusal is logged and the client's
// connection is reset.
func (f *flow) dial() *net.TCPConn {
	var up *net.TCPConn
	var addr netip.Addr
	addrs, err := f.targets()
	if err == nil {
		up, addr, err = f.s.resolver.dial(f.s.set.Load(), addrs, f.port, f.rule)
	}
	if err != nil {
		remedy := ""
		if u := new(unfit); errors.As(err, &u) {
			remedy = u.remedy(f.name, f.port)
		}
		f.refuse(err.Error(), remedy)
		reset(f.client)
		return nil
	}
	if !f.connected(up, addr) {
		return nil
	}
	f.s.events.add(f.event(decisions.Connect, allowed))
	return up
}

// relay copies both ways until both have ended. It passes on the end of one way as an end, and a
// reset as a reset.
func (f *flow) relay(up *net.TCPConn, first []byte) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err := io.Copy(f.client, up)
		f.got.Add(n)
		finish(f.client, up, err)
	}()
	err := f.forward(up, first)
	finish(up, f.client, err)
	<-done
	f.ended()
}

// ended logs a connection's end.
func (f *flow) ended() {
	e := f.event(decisions.End, allowed)
	if why := f.gone(); why != "" {
		e.Verdict, e.Reason = refused, why
	}
	e.Sent, e.Got, e.Millis = f.sent.Load(), f.got.Load(), time.Since(f.begun).Milliseconds()
	f.s.events.add(e)
}

// forward copies the jail's bytes.
func (f *flow) forward(up *net.TCPConn, first []byte) error {
	if first == nil && f.rule.TLS != "any" && !f.literal.IsValid() {
		var err error
		if first, err = f.look(); err != nil {
			return err
		}
	}
	if len(first) > 0 {
		n, err := up.Write(first)
		f.sent.Add(int64(n))
		if f.head != nil {
			f.head.done()
		}
		if err != nil {
			return err
		}
	}
	n, err := io.Copy(up, f.client)
	f.sent.Add(n)
	return err
}

// look reads the jail's first bytes. If they are a ClientHello, it is checked for the name.
func (f *flow) look() ([]byte, error) {
	buf := make([]byte, 4096)
	n, err := f.client.Read(buf)
	if n == 0 {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return nil, err
	}
	buf = buf[:n]
	if buf[0] != tlsHandshake {
		return buf, nil
	}
	if err := f.client.SetReadDeadline(time.Now().Add(helloTime)); err != nil {
		return nil, err
	}
	rest := bytes.NewReader(buf)
	f.head = f.s.heads.of(f.client)
	f.head.Reader = io.MultiReader(rest, f.client)
	h, err := f.hello()
	if err != nil {
		return nil, err
	}
	left := buf[n-rest.Len():] // what follows the hello in the same segment
	return append(h.Raw, left...), f.client.SetReadDeadline(time.Time{})
}

// finish ends one direction of a relay, whose copy ended with err.
func finish(to, from *net.TCPConn, err error) {
	if err == nil {
		_ = to.CloseWrite()
		return
	}
	reset(to)
	reset(from)
}

// hangUpTime is how long the kernel goes on sending a closed connection's last data to a peer that
// does not take it. The host has one number of such connections for all (tcp(7),
// tcp_max_orphans).
const hangUpTime = 10 * time.Second

// hangUp closes a connection to or from the outside.
func hangUp(c net.Conn) {
	in := c
	if t, ok := c.(*tls.Conn); ok {
		in = t.NetConn()
	}
	if t, ok := in.(*net.TCPConn); ok {
		if raw, err := t.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(hangUpTime.Milliseconds()))
			})
		}
	}
	_ = c.Close()
}

// An outside is a connection that Close hangs up.
type outside struct{ *net.TCPConn }

func (o outside) Close() error {
	hangUp(o.TCPConn)
	return nil
}

// reset closes with a reset, so that the connection does not hold a port in TIME_WAIT.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
