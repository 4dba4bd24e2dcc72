package egress

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/credential"
)

// TestAuthority: a jail's authority vouches for the hosts and no others, and its certificate comes
// without the key.
func TestAuthority(t *testing.T) {
	cert, pair, err := makeAuthority([]string{"api.example.test"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(cert, "PRIVATE") || !strings.HasPrefix(string(pair), cert) || len(pair) > credential.MaxAuthority {
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
	_, other, err := makeAuthority([]string{"api.example.test"})
	if err != nil || string(other) == string(pair) {
		t.Errorf("two jails have one authority: %v", err)
	}
}

// TestHostKey: the public key for the jail matches the helper's private key.
func TestHostKey(t *testing.T) {
	public, private, err := makeHostKey()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(private)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	wire, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(public, "ssh-ed25519 "))
	if err != nil || !bytes.HasSuffix(wire, key.(ed25519.PrivateKey).Public().(ed25519.PublicKey)) || len(wire) != 51 {
		t.Errorf("%s: %v", public, err)
	}
}

// TestAnswer: all that is ordered is made, and nothing else.
func TestAnswer(t *testing.T) {
	for _, o := range []credential.Order{{}, {HostKey: true}, {Authority: []string{"a.example.test"}}, {Authority: []string{"a.example.test"}, HostKey: true}} {
		order, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := IssueKeys(bytes.NewReader(order), &out); err != nil {
			t.Fatal(err)
		}
		var got credential.Issued
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if !got.Answers(o) || (got.Authority != "") != (len(o.Authority) > 0) || (got.HostKey != "") != o.HostKey {
			t.Errorf("%s is answered by %s", order, out.Bytes())
		}
		if full := (credential.Order{Authority: []string{"a.example.test"}, HostKey: true}); got.Answers(full) != (len(o.Authority) > 0 && o.HostKey) {
			t.Errorf("%s passes for the answer to an order for everything", out.Bytes())
		}
	}
	if err := IssueKeys(strings.NewReader("nothing"), &bytes.Buffer{}); err == nil {
		t.Error("what is no order is answered")
	}
}
