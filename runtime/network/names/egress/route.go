package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/names/internal/http1"
	"agentjail.dev/runtime/spec/credential"
)

const (
	// handshakeTime is how long TLS to a server may take to begin.
	handshakeTime = 10 * time.Second
	// bodyTime is how long the rest of a request's body may take after the response to it has
	// ended.
	bodyTime = time.Second
	// idleTime is how long a connection may wait for its next request.
	idleTime = 2 * time.Minute
	// maxProxied bounds the connections with credentials at once, each of which has up to two TLS
	// connections. Others wait.
	maxProxied = 256
	// maxHTTP2 bounds the connections of HTTP/2 at once, each of which has many requests.
	maxHTTP2 = 16
)

// credentialProxy serves a connection and sets credentials in its requests. It sends the requests
// to the server one after another, over TLS.
type credentialProxy struct {
	f      *flow
	client net.Conn
	host   string
	own    []*helperproto.Credential
	up     net.Conn
	raw    *net.TCPConn  // below up
	server *bufio.Reader // of up
	// requestHead and responseHead are the client's and the server's data that is kept until the
	// other side has it.
	requestHead, responseHead *head
	// waiting reports that no request is in progress.
	waiting atomic.Bool
	scan    *scan
}

// route serves a connection to the plain route of a host.
func (f *flow) route(host string) {
	if f.port != portHTTP {
		f.refuse("a route for credentials is plain HTTP on port 80", "http://"+f.name+"/")
		reset(f.client)
		return
	}
	as, at := f.name, f.port
	f.name, f.port = host, credential.Port
	if !f.enter() {
		return
	}
	defer f.leave()
	if f.place(f.s.credentials.places, helloTime) {
		defer func() { <-f.s.credentials.places }()
		f.serveRequests(&credentialProxy{client: f.client}, as, at)
	}
}

// place waits for a place among the connections with credentials.
func (f *flow) place(places chan struct{}, wait time.Duration) bool {
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case places <- struct{}{}:
		return true
	case <-late.C:
		f.refuse("too many connections with credentials at once", "")
		reset(f.client)
		return false
	}
}

// withCredentials returns the credentials that are set in the flow's requests, and adds their names
// to the flow's events.
func (f *flow) withCredentials() []*helperproto.Credential {
	own := f.s.credentials.byHost[f.name]
	var names []string
	for _, o := range own {
		names = append(names, o.Name)
	}
	f.credential = strings.Join(names, " ")
	return own
}

// serveRequests serves the requests of a connection. The requests are for the name and port that
// the client used.
func (f *flow) serveRequests(c *credentialProxy, as string, at uint16) {
	c.f, c.host, c.own, c.requestHead = f, f.name, f.withCredentials(), f.s.heads.of(c.client)
	defer c.requestHead.done()
	if c.client.SetReadDeadline(time.Now().Add(helloTime)) != nil {
		return
	}
	requests := http1.NewReader(c.requestHead, as, at)
	if c.client != net.Conn(f.client) {
		requests.OverTLS()
	}
	err := c.serve(requests)
	if c.up != nil {
		hangUp(c.up)
		c.responseHead.done()
		f.ended()
	}
	if _, bad := errors.AsType[*http1.Error](err); bad {
		c.refuse(err)
		return
	}
	c.closeGracefully()
}

// closeGracefully ends the connection so that the client reads the last data.
func (c *credentialProxy) closeGracefully() {
	if t, ok := c.client.(*tls.Conn); ok {
		_ = t.SetWriteDeadline(time.Now().Add(time.Second))
		_ = t.CloseWrite()
	}
	linger(c.f.client)
}

// refuse answers a request that is not sent on.
func (c *credentialProxy) refuse(why error) {
	c.f.refuseFor(why)
	c.writeLast(http1.Refusal(why))
}

// writeLast writes a final answer and closes the connection.
func (c *credentialProxy) writeLast(answer []byte) {
	_ = c.client.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.client.Write(answer)
	c.closeGracefully()
}

// serve serves requests until the connection ends. An *http1.Error is one that is to be refused, of
// which no response has begun.
func (c *credentialProxy) serve(requests *http1.Reader) error {
	for {
		if c.up != nil && c.client.SetReadDeadline(time.Now().Add(idleTime)) != nil {
			return nil
		}
		watched := c.watch()
		q, err := requests.Next()
		c.waiting.Store(false)
		if err != nil {
			return err
		}
		if c.client.SetReadDeadline(time.Time{}) != nil {
			return nil
		}
		if err := c.f.s.credentials.judge(q, c.own); err != nil {
			return err
		}
		if c.up == nil && !c.dial() {
			return nil
		}
		last, err := c.exchange(requests, q, watched)
		if last || err != nil {
			return err
		}
	}
}

// watch ends the wait for a request when the server ends the connection.
func (c *credentialProxy) watch() <-chan struct{} {
	done := make(chan struct{})
	c.waiting.Store(true)
	if c.up == nil {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		if _, err := c.server.Peek(1); err != nil && c.waiting.Load() {
			_ = c.client.SetReadDeadline(time.Unix(1, 0))
		}
	}()
	return done
}

// dial connects to the server. If it cannot, it sends the client an answer and returns false.
func (c *credentialProxy) dial() bool {
	t, err := c.f.dialTLS(protoHTTP1)
	if err != nil {
		c.writeLast(http1.Unavailable(err))
	}
	if t == nil {
		return false
	}
	c.reached(t)
	return true
}

// reached sets the connection to the server.
func (c *credentialProxy) reached(t *tls.Conn) {
	c.up, c.raw = t, t.NetConn().(*net.TCPConn)
	c.responseHead, c.scan = c.f.s.heads.of(t), c.f.scanBodies(c.own)
	c.server = bufio.NewReader(c.responseHead)
}

// dialTLS connects to the flow's server, which chooses one of some protocols. If it returns nil
// without an error, the client's connection has been refused already. With an error, the caller has
// to answer the client.
func (f *flow) dialTLS(protocols ...string) (*tls.Conn, error) {
	up := f.dial()
	if up == nil {
		return nil, nil
	}
	t := tls.Client(up, &tls.Config{
		ServerName: f.name, RootCAs: f.s.credentials.roots, MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
	})
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTime)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		reset(up)
		f.refuse("TLS with the server: "+err.Error(), "")
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return t, nil
}

// Write sends bytes to the server, unless they contain a placeholder.
func (c *credentialProxy) Write(b []byte) (int, error) {
	if err := c.scan.see(b); err != nil {
		return 0, err
	}
	n, err := c.up.Write(b)
	c.f.sent.Add(int64(n))
	c.requestHead.done()
	return n, err
}

// exchange sends a request, with the credentials set, and passes the response on. It reports
// whether it was the last.
func (c *credentialProxy) exchange(requests *http1.Reader, q *http1.Request, watched <-chan struct{}) (last bool, err error) {
	set(q, c.host, c.own)
	sent := make(chan error, 1)
	go func() {
		err := requests.Forward(c, q)
		if err != nil {
			// There is no response to half a request. TLS's close_notify would make the server
			// respond to it.
			reset(c.raw)
		}
		sent <- err
	}()
	<-watched
	p, begun, err := c.respond(q)
	if err != nil {
		hangUp(c.up)
		_ = c.client.SetReadDeadline(time.Unix(1, 0))
		why := <-sent
		_, bad := errors.AsType[*http1.Error](why)
		switch {
		case begun:
		case bad:
			return true, why
		default:
			c.writeLast(http1.Unavailable(err))
		}
		return true, nil
	}
	if p.Switched() {
		<-sent // it has no body
		c.tunnel(requests)
		return true, nil
	}
	select {
	case err = <-sent:
	case <-time.After(bodyTime):
		hangUp(c.up)
		_ = c.client.SetReadDeadline(time.Unix(1, 0))
		<-sent
		return true, nil
	}
	return err != nil || p.Last || q.Last(), nil
}

// set sets the credentials in a request, and addresses it to their host.
func set(q *http1.Request, host string, own []*helperproto.Credential) {
	q.Readdress(host)
	for _, o := range own {
		value := string(o.Value.Reveal())
		if o.Scheme != "" {
			value = o.Scheme + " " + value
		}
		q.Set(o.Header, value)
	}
}

// respond passes on the responses to a request, up to the final one, and reports whether that has
// begun.
func (c *credentialProxy) respond(q *http1.Request) (p *http1.Response, begun bool, err error) {
	for {
		if p, err = http1.ReadResponse(c.server, q.Method); err == nil && p.Switched() && !q.Upgrade {
			err = errors.New("another protocol, which the request did not request")
		}
		if err != nil {
			return nil, false, err
		}
		if n := p.Strip(c.f.s.credentials.reveals); n > 0 {
			c.f.reportStripped(n)
		}
		if err = p.Forward(counted{c}, c.server); err != nil || p.Final() {
			return p, p.Final(), err
		}
	}
}

// reportStripped logs the number of response fields that contained the credential.
func (f *flow) reportStripped(n int) {
	e := f.event(decisions.Connect, allowed)
	e.Reason = fmt.Sprintf("%d fields of a response had the credential, and were left out", n)
	f.s.events.add(e)
}

// tunnel copies both ways once the server has agreed to another protocol.
func (c *credentialProxy) tunnel(requests *http1.Reader) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(counted{c}, c.server)
		_ = c.client.SetReadDeadline(time.Unix(1, 0))
	}()
	_ = requests.Rest(c)
	hangUp(c.up)
	<-done
}

// counted writes to the client and counts the bytes.
type counted struct{ c *credentialProxy }

// Write counts the bytes for the jail.
func (w counted) Write(b []byte) (int, error) {
	n, err := w.c.client.Write(b)
	w.c.f.got.Add(int64(n))
	w.c.responseHead.done()
	return n, err
}
