package kubernetes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of a cluster.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes an authority that keeps its files in dir: ca.crt, and NAME.crt and NAME.key of what it signs.
func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a := &authority{dir: dir}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, a.key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", der)
}

// sign makes a certificate for a user of some groups, or for a server at this node.
func (a *authority) sign(file, user string, groups ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", nodeName, "kubernetes.default.svc"}, IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(nodeAddress), net.ParseIP("10.96.0.1")},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(writePEM(a.path(file+".crt"), "CERTIFICATE", der), writePEM(a.path(file+".key"), "EC PRIVATE KEY", private))
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// config writes the kubeconfig of a user whose certificate sign has made.
func (a *authority) config(file string) error {
	return os.WriteFile(a.path(file+".conf"), fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://%s:6443", certificate-authority: %s}}]
users: [{name: me, user: {client-certificate: %s, client-key: %s}}]
contexts: [{name: test, context: {cluster: test, user: me}}]
current-context: test
`, nodeAddress, a.path("ca.crt"), a.path(file+".crt"), a.path(file+".key")), 0o600)
}

// client sends requests to the cluster's servers as a user whose certificate sign has made. For requests for which kubectl, a large program, takes long where
// everything is emulated.
func (a *authority) client(file string) (*http.Client, error) {
	own, err := tls.LoadX509KeyPair(a.path(file+".crt"), a.path(file+".key"))
	if err != nil {
		return nil, err
	}
	known := x509.NewCertPool()
	known.AddCert(a.cert)
	return &http.Client{
		Timeout:   patient(20 * time.Second),
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known, Certificates: []tls.Certificate{own}}},
	}, nil
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
