package egress

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/names/internal/http1"
	"agentjail.dev/runtime/spec/credential"
)

// credentials are the credentials that the jail can use through the helper.
type credentials struct {
	all    []helperproto.Credential
	byHost map[string][]*helperproto.Credential
	// roots are the host's certificate authorities. They verify the servers that get a credential.
	roots *x509.CertPool
	// own is the jail's certificate authority; nil if no TLS is terminated.
	own *authority
	// places bounds the connections with credentials.
	places chan struct{}
	// http2Places bounds the connections of HTTP/2.
	http2Places chan struct{}
	protocols   Protocols
	// ssh serves connections to ssh endpoints.
	ssh       func(*SSHConn)
	endpoints map[string]string
	sessions  chan struct{}
	once      sync.Once
	parts     *parts   // reveals
	inBody    sync.Map // names of credentials whose placeholder stood in a body to its own host
}

// newCredentials returns the work's credentials. The host's certificate authorities verify servers.
func newCredentials(w *helperproto.Work, roots *x509.CertPool, protocols Protocols) (*credentials, error) {
	var list, keys []helperproto.Credential
	for _, c := range w.Credentials {
		if c.SSH != nil {
			keys = append(keys, c)
		} else {
			list = append(list, c)
		}
	}
	c := &credentials{
		protocols: protocols, sessions: make(chan struct{}, maxSSH), all: list, byHost: map[string][]*helperproto.Credential{},
		places: make(chan struct{}, maxProxied), http2Places: make(chan struct{}, maxHTTP2),
	}
	if err := c.readSSHKeys(w, keys); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return c, nil
	}
	for i := range list {
		for _, h := range list[i].Hosts {
			c.byHost[h] = append(c.byHost[h], &list[i])
		}
	}
	var err error
	if c.own, err = newAuthority(w.Authority); err != nil {
		return nil, err
	}
	if c.roots = roots; roots == nil {
		return nil, errors.New("there are credentials, but the host's certificate authorities were not read")
	}
	return c, nil
}

// authorities reads the host's certificate authorities.
func authorities() (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the host's certificate authorities: %w", err)
	}
	if roots.Equal(x509.NewCertPool()) {
		return nil, errors.New("the host has no certificate authorities, which credentials need (remedy: install the package ca-certificates)")
	}
	return roots, nil
}

// routed returns the host whose plain route a name is, or "". The host has a credential, and the
// rules allow it.
func (s *server) routed(name string) string {
	host, ok := strings.CutSuffix(name, credential.RouteSuffix)
	if !ok || len(s.credentials.byHost[host]) == 0 || !s.set.Load().Match(host, credential.Port).OK {
		return ""
	}
	return host
}

// misplaced returns the refusal of a placeholder in the wrong place.
func misplaced(c *helperproto.Credential) error {
	return &misuse{c.Name, &http1.Error{
		Status: 403,
		Reason: "the placeholder of credentials." + c.Name + " in another place than its header, or a body, at its hosts",
	}}
}

// misuse is the refusal of a placeholder.
type misuse struct {
	credential string
	err        *http1.Error
}

// Error returns the reason.
func (m *misuse) Error() string { return m.err.Error() }

// Unwrap returns the refusal for the client.
func (m *misuse) Unwrap() error { return m.err }

// refuseFor logs a connection whose request is not sent on.
func (f *flow) refuseFor(why error) {
	e := f.event(decisions.Connect, refused)
	e.Reason = why.Error()
	if m := new(misuse); errors.As(why, &m) {
		e.Credential = m.credential
	}
	f.s.events.add(e)
}

// judge refuses a request with a placeholder, except the placeholder of one of its own credentials
// in that credential's header.
func (c *credentials) judge(q *http1.Request, own []*helperproto.Credential) error {
	for i := range c.all {
		but := ""
		if slices.Contains(own, &c.all[i]) {
			but = c.all[i].Header
		}
		if q.Find(c.all[i].Placeholder, but) {
			return misplaced(&c.all[i])
		}
	}
	return nil
}

// reveals reports whether a text has the value of a credential, or a part of it.
func (c *credentials) reveals(text string) bool {
	c.once.Do(func() { c.parts = newParts(c.all) })
	return len(c.all) > 0 && c.parts.in([]byte(text), nesting)
}

// scan finds placeholders in a stream, also across the borders of its parts.
type scan struct {
	c    *credentials
	own  []*helperproto.Credential     // of the host: their placeholders pass
	seen func(*helperproto.Credential) // called when one of them does
	keep int                           // bytes that the beginning of a placeholder can have
	last []byte                        // of what was seen
	hit  bool                          // a placeholder was found: what was sent is not whole
}

// scan returns a search of what is sent to a host whose own credentials are given.
func (c *credentials) scan(own []*helperproto.Credential, seen func(*helperproto.Credential)) *scan {
	s := &scan{c: c, own: own, seen: seen}
	for i := range c.all {
		s.keep = max(s.keep, len(c.all[i].Placeholder)-1)
	}
	return s
}

// scanBodies returns a search of the bodies to the flow's server, which has credentials. An agent
// that prints its environment has its placeholders in each later body. The first body with each is
// logged.
func (f *flow) scanBodies(own []*helperproto.Credential) *scan {
	return f.s.credentials.scan(own, func(c *helperproto.Credential) {
		if _, before := f.s.credentials.inBody.LoadOrStore(c.Name, true); before {
			return
		}
		e := f.event(decisions.Connect, allowed)
		e.Credential, e.Reason = c.Name, "a body to its own host has the placeholder, which passes as it is; this is logged once"
		f.s.events.add(e)
	})
}

// see refuses the bytes that complete a placeholder, so that they are not sent.
func (s *scan) see(b []byte) error {
	if s.keep == 0 {
		return nil
	}
	// First the border to the last part, then the new bytes alone: a body's buffers are not copied.
	seam := append(s.last, b[:min(len(b), s.keep)]...)
	for i := range s.c.all {
		c := &s.c.all[i]
		p := []byte(c.Placeholder)
		if !bytes.Contains(seam, p) && !bytes.Contains(b, p) {
			continue
		}
		if !slices.Contains(s.own, c) {
			s.hit = true
			return misplaced(c)
		}
		s.seen(c)
	}
	if len(b) >= s.keep {
		seam = b
	}
	s.last = append([]byte(nil), seam[max(0, len(seam)-s.keep):]...)
	return nil
}
