package egress

import (
	"crypto/x509"
	"testing"
	"time"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/spec/credential/secret"
)

// TestCertificate: a host's certificate is kept, made anew before it is too old, and holds for that host alone, and for none that the
// authority is not for.
func TestCertificate(t *testing.T) {
	cert, pair, err := makeAuthority([]string{"api.example.test"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAuthority(secret.New(pair))
	if err != nil {
		t.Fatal(err)
	}
	if pair[0] != 0 {
		t.Error("the key's text is kept")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(cert))
	verify := func(made, as string) error {
		c, err := a.certificate(made)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: as})
		return err
	}
	if err := verify("api.example.test", "api.example.test"); err != nil {
		t.Error(err)
	}
	if verify("api.example.test", "other.example.test") == nil || verify("other.example.test", "other.example.test") == nil {
		t.Error("another host has a certificate")
	}
	first, _ := a.certificate("api.example.test")
	if again, _ := a.certificate("api.example.test"); again != first {
		t.Error("it is made for each connection")
	}
	first.Leaf.NotAfter = time.Now().Add(leafRenew - time.Minute)
	if again, _ := a.certificate("api.example.test"); again == first {
		t.Error("it is not made anew")
	}
	if none, err := newAuthority(secret.Value{}); none != nil || err != nil {
		t.Errorf("without an authority: %v, %v", none, err)
	}
}

// TestEnds: TLS is ended for the credential's hosts on 443 alone.
func TestEnds(t *testing.T) {
	ends, passes := &helperproto.Credential{End: true}, &helperproto.Credential{}
	c := &credentials{own: new(authority), byHost: map[string][]*helperproto.Credential{"a": {passes, ends}, "b": {passes}}}
	for _, w := range []struct {
		host string
		port uint16
		want bool
	}{{"a", 443, true}, {"a", 8443, false}, {"b", 443, false}, {"c", 443, false}} {
		if got := c.ends(w.host, w.port); got != w.want {
			t.Errorf("%s:%d: %v", w.host, w.port, got)
		}
	}
	if c.own = nil; c.ends("a", 443) {
		t.Error("without an authority")
	}
}
