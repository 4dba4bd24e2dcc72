package env

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
)

// A Place is a thread in a network namespace of its own, whose lo is up. The namespace ends with
// the thread, and what was started on the thread with a parent death signal is killed.
type Place struct {
	TID  int // the thread, as `ip link … netns TID` and /proc/TID/ns/net name it
	jobs chan func()
	once sync.Once
}

// NewPlace makes a network namespace.
func NewPlace() (*Place, error) {
	p := &Place{jobs: make(chan func())}
	ready := make(chan error, 1)
	go func() {
		_ = thread.Own(func() error {
			p.TID = unix.Gettid()
			err := unix.Unshare(unix.CLONE_NEWNET)
			if err == nil {
				err = loopbackUp()
			}
			ready <- err
			for job := range p.jobs {
				job()
			}
			return nil
		})
	}()
	if err := <-ready; err != nil {
		p.Close()
		return nil, fmt.Errorf("making a network namespace: %w", err)
	}
	return p, nil
}

// Do calls f on the place's thread.
func (p *Place) Do(f func() error) error {
	done := make(chan error, 1)
	p.jobs <- func() { done <- f() }
	return <-done
}

// Close ends the thread. It may be called more than once.
func (p *Place) Close() { p.once.Do(func() { close(p.jobs) }) }

// loopbackUp brings the calling thread's loopback interface up.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket to set lo up: %w", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("setting lo up: %w", err)
	}
	return nil
}

// IP runs ip(8) in the calling thread's network, once for each line of arguments.
func IP(lines ...string) error {
	for _, line := range lines {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return nil
}

// Serve calls f with each connection that a listener accepts, and closes the connection when f returns. It
// returns when the listener is closed.
func Serve(l net.Listener, f func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			f(c)
		}()
	}
}

// ServeNames is a name server. It returns when the socket is closed. zone returns what there is of a
// name, and whether there is such a name.
func ServeNames(c net.PacketConn, zone func(dnsmessage.Question) ([]dnsmessage.Resource, bool)) {
	buf := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		r := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
		known := false
		if r.Answers, known = zone(m.Questions[0]); !known {
			r.RCode = dnsmessage.RCodeNameError
		}
		if out, err := r.Pack(); err == nil {
			_, _ = c.WriteTo(out, from)
		}
	}
}

// Address answers a question for an IPv4 address, to be kept for ttl seconds. Other questions have an empty answer.
func Address(q dnsmessage.Question, ttl uint32, a netip.Addr) []dnsmessage.Resource {
	if q.Type != dnsmessage.TypeA {
		return nil
	}
	return []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: ttl}, Body: &dnsmessage.AResource{A: a.As4()}}}
}

// Sockstat returns a number of /proc/net/sockstat, as of the field "mem" of "TCP" (proc_pid_net(5)), of the calling thread's network. mem is in
// pages, and of all networks.
func Sockstat(t testing.TB, protocol, field string) int {
	t.Helper()
	text := string(Read(t, "/proc/thread-self/net/sockstat"))
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if at := slices.Index(words, field); words[0] == protocol+":" && at > 0 {
			return Number(t, words[at+1])
		}
	}
	t.Fatalf("no %s of %s in:\n%s", field, protocol, text)
	return 0
}

// Certificate makes a certificate of an authority of its own for names, and the authority's as a file has it.
func Certificate(t testing.TB, names ...string) (cert tls.Certificate, authority []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Check(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lab"}, NotAfter: time.Now().Add(time.Hour), DNSNames: names,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	Check(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
