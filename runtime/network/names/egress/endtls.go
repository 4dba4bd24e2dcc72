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
	"math/big"
	"net"
	"sync"
	"time"

	"agentjail.dev/runtime/credential/secret"
)

// Certificates for hosts, which are made anew before they are too old.
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

// certificate is a host's, by the authority.
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
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
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

// ends tells whether TLS to a host is ended here.
func (c *credentials) ends(host string, port uint16) bool {
	if c.own == nil || port != portHTTPS {
		return false
	}
	for _, o := range c.byHost[host] {
		if o.End {
			return true
		}
	}
	return false
}

// endTLS is the server of a connection, whose ClientHello has been read, for the client: credentials are set in what is inside.
func (f *flow) endTLS(hello []byte) {
	if !f.place() {
		return
	}
	defer f.s.credentials.gone()
	host := f.name
	t := tls.Server(&begun{f.client, io.MultiReader(bytes.NewReader(hello), f.client)}, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(i *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if i.ServerName != host {
				return nil, errors.New("another name")
			}
			return f.s.credentials.own.certificate(host)
		},
	})
	err := f.client.SetDeadline(time.Now().Add(helloTime))
	if err == nil {
		err = t.Handshake()
	}
	f.head.done()
	if err == nil {
		err = f.client.SetDeadline(time.Time{})
	}
	if err != nil {
		f.refuse("TLS that is ended for a credential: "+err.Error(), "the jail's certificate authority among those that the program trusts")
		linger(f.client)
		return
	}
	f.carry(t, host, portHTTPS)
}

// begun is a connection of which the beginning has been read.
type begun struct {
	net.Conn
	all io.Reader
}

// Read reads all of it.
func (b *begun) Read(p []byte) (int, error) { return b.all.Read(p) }
