package egress

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"time"

	"agentjail.dev/runtime/spec/credential"
)

// authorityLife is how long an authority's certificate is valid.
const authorityLife = 5 * 365 * 24 * time.Hour

// maxOrder bounds an order, in bytes.
const maxOrder = 1 << 20

// IssueKeys reads a [credential.Order] and writes the requested keys of a jail with credentials:
// the certificate authority by which its programs trust the helper that terminates TLS, and the key
// by which they recognise the helper as the ssh server. agentjail runs the helper's program for
// that ([credential.IssueVerb]), so that it need not link certificates itself.
func IssueKeys(from io.Reader, to io.Writer) error {
	var o credential.Order
	if err := json.NewDecoder(io.LimitReader(from, maxOrder)).Decode(&o); err != nil {
		return fmt.Errorf("reading what to make: %w", err)
	}
	var i credential.Issued
	var err error
	if len(o.Authority) > 0 {
		if i.Authority, i.AuthorityPair, err = makeAuthority(o.Authority); err != nil {
			return err
		}
	}
	if o.HostKey {
		if i.HostKey, i.HostKeyPrivate, err = makeHostKey(); err != nil {
			return err
		}
	}
	return json.NewEncoder(to).Encode(i)
}

// makeAuthority makes a certificate authority for a jail that can sign for these hosts and no
// others. It returns the certificate, and the certificate with its key, both as PEM.
func makeAuthority(hosts []string) (cert string, pair []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", nil, fmt.Errorf("a certificate authority: %w", err)
	}
	now := time.Now()
	c := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "agentjail, of this jail alone"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: hosts,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return "", nil, fmt.Errorf("a certificate authority: %w", err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", nil, fmt.Errorf("a certificate authority: %w", err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return string(public), append(public[:len(public):len(public)],
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})...), nil
}

// makeHostKey makes the key by which a jail recognises its helper. It returns the public key in the
// form of known_hosts(5), and the private key as PEM.
func makeHostKey() (public string, private []byte, err error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", nil, fmt.Errorf("a key for ssh: %w", err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		return "", nil, fmt.Errorf("a key for ssh: %w", err)
	}
	const kind = "ssh-ed25519"
	var wire []byte
	for _, part := range [][]byte{[]byte(kind), pub} {
		wire = append(binary.BigEndian.AppendUint32(wire, uint32(len(part))), part...)
	}
	return kind + " " + base64.StdEncoding.EncodeToString(wire),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), nil
}
