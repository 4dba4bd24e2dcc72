package credential

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
)

// TestAuthority: a jail's authority vouches for the hosts and no others, and its certificate comes without the key.
func TestAuthority(t *testing.T) {
	cert, pair, err := NewAuthority([]string{"api.example.test"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(cert, "PRIVATE") || !strings.HasPrefix(string(pair), cert) || len(pair) > MaxAuthority {
		t.Errorf("%q", cert)
	}
	p, err := tls.X509KeyPair(pair, pair)
	if err != nil {
		t.Fatal(err)
	}
	c := p.Leaf
	if !c.IsCA || !c.PermittedDNSDomainsCritical || strings.Join(c.PermittedDNSDomains, " ") != "api.example.test" || c.KeyUsage != x509.KeyUsageCertSign {
		t.Errorf("%+v", c)
	}
	_, other, err := NewAuthority([]string{"api.example.test"})
	if err != nil || string(other) == string(pair) {
		t.Errorf("two jails have one authority: %v", err)
	}
}

// TestEnded: the hosts of credentials whose TLS is ended.
func TestEnded(t *testing.T) {
	a, b := house(), house()
	a.TLS, b.Hosts = TLSEnd, []string{"b.example.test"}
	if got := (Set{"a": a, "b": b}).Ended(); strings.Join(got, " ") != "api.example.test" {
		t.Errorf("%q", got)
	}
}
