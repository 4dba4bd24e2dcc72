package credential

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// AuthorityFile has a jail's own certificate authority with its key, in the jail's directory of state, for root alone.
const AuthorityFile = "authority.pem"

// MaxAuthority bounds it, in bytes.
const MaxAuthority = 256 << 10

// life is how long an authority's certificate is valid.
const life = 5 * 365 * 24 * time.Hour

// Ended are the hosts to which the helper ends TLS.
func (s Set) Ended() []string {
	var out []string
	for _, name := range s.Names() {
		if c := s[name]; c.Ends() {
			out = append(out, c.Hosts...)
		}
	}
	return out
}

// NewAuthority makes a certificate authority for a jail, which can vouch for these hosts and no others: its certificate, and the same with
// its key, both as PEM.
func NewAuthority(hosts []string) (cert string, pair []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", nil, fmt.Errorf("a certificate authority: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", nil, fmt.Errorf("a certificate authority: %w", err)
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "agentjail, of this jail alone"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life),
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
	return string(public), append(public[:len(public):len(public)], pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})...), nil
}
