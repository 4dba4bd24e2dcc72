package egress

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/names/internal/http1"
	"agentjail.dev/runtime/spec/credential/secret"
)

// Certificates for hosts, which are renewed before they expire.
const (
	leafLife  = 30 * 24 * time.Hour
	leafRenew = 15 * 24 * time.Hour
)

// authority is the jail's own certificate authority.
type authority struct {
	cert *x509.Certificate
	key  any
	mu   sync.Mutex
	made map[string]*tls.Certificate // by host, and so bounded by policy
}

// newAuthority reads the certificate and the key.
func newAuthority(pair secret.Value) (*authority, error) {
	if pair.Empty() {
		return nil, nil
	}
	p, err := tls.X509KeyPair(pair.Reveal(), pair.Reveal())
	pair.Wipe()
	if err != nil {
		return nil, fmt.Errorf("the jail's certificate authority: %w", err)
	}
	return &authority{cert: p.Leaf, key: p.PrivateKey, made: map[string]*tls.Certificate{}}, nil
}

// certificate returns a host's certificate, signed by the authority.
func (a *authority) certificate(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if c := a.made[host]; c != nil && c.Leaf.NotAfter.Sub(now) > leafRenew {
		return c, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	a.made[host] = c
	return c, nil
}

// ends reports whether the helper terminates TLS to a host.
func (c *credentials) ends(host string, port uint16) bool {
	if c.own == nil || port != portHTTPS {
		return false
	}
	return slices.ContainsFunc(c.byHost[host], func(o *helperproto.Credential) bool { return o.End })
}

// Protocols inside TLS (RFC 7301).
const (
	protoHTTP1 = "http/1.1"
	protoHTTP2 = "h2"
)

// endTLS terminates the TLS of a connection whose ClientHello has been read, and sets credentials
// in its requests.
func (f *flow) endTLS(hello []byte) {
	if !f.place(f.s.credentials.places, helloTime) {
		return
	}
	defer func() { <-f.s.credentials.places }()
	f.withCredentials()
	e := &ending{f: f}
	defer e.close()
	t := tls.Server(&replayConn{f.client, io.MultiReader(bytes.NewReader(hello), f.client)}, e.config(protoHTTP1))
	err := f.client.SetDeadline(time.Now().Add(helloTime))
	if err == nil {
		err = t.Handshake()
	}
	f.head.done()
	if err == nil {
		err = f.client.SetDeadline(time.Time{})
	}
	switch {
	case e.clientRefused:
	case err != nil:
		f.refuse("TLS that is ended for a credential: "+err.Error(), "the jail's certificate authority among those that the program trusts")
		linger(f.client)
	case e.err != nil:
		c := &credentialProxy{f: f, client: t}
		c.writeLast(http1.Unavailable(e.err))
	case t.ConnectionState().NegotiatedProtocol == protoHTTP2:
		f.http2(t, e.up)
	default:
		c := &credentialProxy{client: t}
		if e.up != nil {
			c.f = f
			c.reached(e.up)
		}
		f.serveRequests(c, f.name, portHTTPS)
	}
}

// ending is the state of a TLS handshake with the client. Nothing is translated from one version of
// HTTP into another: the helper connects to the server first, and offers the client HTTP/2 only if
// the server supports it.
type ending struct {
	f             *flow
	up            *tls.Conn // what was reached for it
	err           error     // why it was not
	clientRefused bool      // the client's refusal is sent and logged
	hasPlace      bool      // it has a place among the connections of HTTP/2
}

func (e *ending) config(protocol string) *tls.Config {
	host := e.f.name
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{protocol}, SessionTicketsDisabled: true, GetConfigForClient: e.choose,
		GetCertificate: func(i *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if i.ServerName != host {
				return nil, errors.New("another name")
			}
			return e.f.s.credentials.own.certificate(host)
		},
	}
}

// choose returns the configuration with the protocol that the server has chosen, for a client that
// supports HTTP/2.
func (e *ending) choose(i *tls.ClientHelloInfo) (*tls.Config, error) {
	if e.f.s.credentials.protocols.HTTP2 == nil || !slices.Contains(i.SupportedProtos, protoHTTP2) || i.ServerName != e.f.name {
		return nil, nil
	}
	if !e.f.place(e.f.s.credentials.http2Places, helloTime) {
		e.clientRefused = true
		return nil, errors.New("no place")
	}
	e.hasPlace = true
	if e.up, e.err = e.f.dialTLS(protoHTTP2, protoHTTP1); e.up == nil {
		if e.clientRefused = e.err == nil; e.clientRefused {
			return nil, errors.New("no server")
		}
		return nil, nil
	}
	c := e.config(protoHTTP1)
	if e.up.ConnectionState().NegotiatedProtocol == protoHTTP2 {
		c = e.config(protoHTTP2)
	}
	return c, e.f.client.SetDeadline(time.Now().Add(helloTime))
}

// close closes the server's connection and frees the place.
func (e *ending) close() {
	if e.up != nil {
		hangUp(e.up)
	}
	if e.hasPlace {
		<-e.f.s.credentials.http2Places
	}
}

// http2 serves a connection of HTTP/2.
func (f *flow) http2(client, up *tls.Conn) {
	own, creds := f.withCredentials(), f.s.credentials
	creds.protocols.HTTP2(&HTTP2Conn{
		Client: client, Server: up, Host: f.name,
		Judge: func(h *http1.Head) (*http1.Request, error) {
			q, err := http1.Judge(h, f.name, portHTTPS, portHTTPS)
			if err == nil {
				err = creds.judge(q, own)
			}
			if err == nil {
				set(q, f.name, own)
			}
			return q, err
		},
		Own: func(name string) bool {
			return slices.ContainsFunc(own, func(c *helperproto.Credential) bool { return c.Header == name })
		},
		Scan: func() (body, fields func([]byte) error) {
			return f.scanBodies(own).see, creds.scan(nil, nil).see
		},
		Reveals: creds.reveals,
		Refused: f.refuseFor, LeftOut: f.reportStripped,
		Sent: func(n int) { f.sent.Add(int64(n)) }, Got: func(n int) { f.got.Add(int64(n)) },
	})
	hangUp(up)
	f.ended()
	_ = client.SetWriteDeadline(time.Now().Add(time.Second))
	_ = client.CloseWrite()
	linger(f.client)
}

// replayConn is a connection whose beginning has been read already.
type replayConn struct {
	net.Conn
	all io.Reader
}

// Read reads from the beginning of the connection.
func (b *replayConn) Read(p []byte) (int, error) { return b.all.Read(p) }
