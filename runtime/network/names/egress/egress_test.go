package egress

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/tests/env"
)

// pair is a TCP connection over lo.
func pair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	in, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	a, b = c.(*net.TCPConn), in
	t.Cleanup(func() { a.Close(); b.Close() })
	for _, x := range []*net.TCPConn{a, b} {
		_ = x.SetDeadline(time.Now().Add(20 * time.Second))
	}
	return a, b
}

// relayed is a flow between the client's end and the server's, at work.
func relayed(t *testing.T, rule *netrules.Rule) (client, server *net.TCPConn, log string, done chan struct{}) {
	t.Helper()
	client, in := pair(t)
	up, server := pair(t)
	log = filepath.Join(t.TempDir(), "log")
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	fl := &flow{s: &serving{events: newEvents(1<<20, 0, 0, f), heads: newHeads()}, client: in, name: "api.example.org", port: 22, rule: rule, begun: time.Now()}
	done = make(chan struct{})
	go func() { fl.relay(up, nil); close(done) }()
	return client, server, log, done
}

// serving is the type server, where a variable has its name.
type serving = server

// TestHalfClose: the end of one way does not end the other.
func TestHalfClose(t *testing.T) {
	client, server, log, done := relayed(t, &netrules.Rule{})
	if _, err := client.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(server); err != nil || string(got) != "question" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := server.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if got, err := io.ReadAll(client); err != nil || string(got) != "answer" {
		t.Fatalf("%q, %v", got, err)
	}
	<-done
	text, err := os.ReadFile(log)
	var e decisions.Event
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil || e.What != decisions.End || e.Sent != 8 || e.Got != 6 {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestReset: a reset on one side is one on the other, either way.
func TestReset(t *testing.T) {
	for _, back := range []bool{false, true} {
		client, server, _, done := relayed(t, &netrules.Rule{})
		one, other := client, server
		if back {
			one, other = server, client
		}
		if _, err := one.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(other, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		reset(one)
		if _, err := other.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("from the server %v: %v", back, err)
		}
		<-done
	}
}

// TestOtherTLS: TLS on a port of another protocol is held to the name too.
func TestOtherTLS(t *testing.T) {
	hello := []byte{tlsHandshake, 3, 1, 0, 4, 1, 0, 0, 0} // no server name
	for _, c := range []struct {
		rule netrules.Rule
		ok   bool
	}{{netrules.Rule{}, false}, {netrules.Rule{TLS: netrules.TLSAny}, true}} {
		client, server, log, done := relayed(t, &c.rule)
		if _, err := client.Write(hello); err != nil {
			t.Fatal(err)
		}
		_ = client.CloseWrite()
		got, err := io.ReadAll(server)
		if ok := err == nil && bytes.Equal(got, hello); ok != c.ok {
			t.Errorf("%+v: %x, %v", c.rule, got, err)
		}
		server.Close()
		<-done
		if text, err := os.ReadFile(log); err != nil || strings.Contains(string(text), refused) == c.ok {
			t.Errorf("%+v: %s, %v", c.rule, text, err)
		}
	}
}

// TestLogBounds: a jail that makes events as fast as it can fills neither the log nor the disk, and
// the log reports what it lacks.
func TestLogBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	const max = 10 << 10
	e := newEvents(max, 0, 0, f)
	e.limit.now = func() time.Time { return e.limit.last } // no time passes, in which events would be allowed again
	for range 3 * logBurst {
		e.add(decisions.Event{What: decisions.Connect, Verdict: refused, Name: "x.example.org"})
		if fi, err := f.Stat(); err != nil || fi.Size() > max {
			t.Fatalf("%d bytes, %v", fi.Size(), err)
		}
	}
	if e.dropped == 0 {
		t.Error("nothing was too much")
	}
	e.reported = map[string]bool{}
	e.limit = newBucket(10, 1)
	before, _ := f.Stat()
	e.refusedName("y.example.org", "", "")
	once, _ := f.Stat()
	e.refusedName("y.example.org", "", "")
	if twice, _ := f.Stat(); once.Size() == before.Size() || twice.Size() != once.Size() {
		t.Errorf("a refused name is answered with %d, %d, %d bytes", before.Size(), once.Size(), twice.Size())
	}
}

// TestBucket: a burst at once, and then no more than the rate.
func TestBucket(t *testing.T) {
	b := newBucket(5, 100)
	at := b.last
	b.now = func() time.Time { return at } // no time passes
	for i := range 5 {
		if w := b.take(); w != 0 {
			t.Errorf("token %d waits %v", i, w)
		}
	}
	if b.try() {
		t.Error("a sixth token at once")
	}
	if w := b.take(); w != 10*time.Millisecond {
		t.Errorf("the sixth waits %v", w)
	}
}

// TestFit: an address that a name led to is held to the deny list and to what upstream refuses.
func TestFit(t *testing.T) {
	set, err := netrules.Parse([]string{"a.example.org:443"}, []string{"5.5.5.5"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rule := set.Match("a.example.org", 443).Rule
	for addr, ok := range map[string]bool{"5.5.5.6": true, "5.5.5.5": false, "5.5.5.7": false, "::ffff:5.5.5.7": false, "127.0.0.1": false, "169.254.169.254": false, "10.0.0.1": false} {
		r := &resolver{kind: func(netip.Addr) (byte, error) { return unix.RTN_UNICAST, nil }, hosts: []netip.Addr{netip.MustParseAddr("5.5.5.7")}}
		if err := r.fit(set, netip.MustParseAddr(addr), 443, rule); (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
		for _, kind := range []byte{unix.RTN_UNSPEC, unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST, unix.RTN_MULTICAST, unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_NAT} {
			r.kind = func(netip.Addr) (byte, error) { return kind, nil }
			if r.fit(set, netip.MustParseAddr(addr), 443, rule) == nil {
				t.Errorf("%s by a route of type %d", addr, kind)
			}
		}
		r.kind = func(netip.Addr) (byte, error) { return 0, unix.ENETUNREACH }
		if r.fit(set, netip.MustParseAddr(addr), 443, rule) == nil {
			t.Errorf("%s without a route", addr)
		}
	}
}

// TestOwnAddresses: each of a host's addresses is known as its own, also an interface's second one,
// and what is no machine's.
func TestOwnAddresses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes a network namespace")
	}
	err := thread.Own(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if err := env.IP(
			"link set lo up", "link add one type veth peer name two", "link set one up", "link set two up",
			"addr add 5.5.5.2/24 dev one", "addr add 5.5.5.3/24 dev one", "addr add 5.5.5.4/32 dev one", "addr add 7.7.7.7/32 dev lo",
			"-6 addr add 2a05:5::2/64 dev one nodad", "-6 addr add 2a05:5::3/64 dev one nodad", "route add default via 5.5.5.1",
			"route add blackhole 6.6.6.0/24", "route add unreachable 6.6.7.0/24", "route add local 6.6.8.0/24 dev lo", "-6 route add blackhole 2a06::/64",
		); err != nil {
			return err
		}
		rt, err := openRoutes()
		if err != nil {
			return err
		}
		defer unix.Close(rt.fd)
		for addr, want := range map[string]byte{
			"5.5.5.2": unix.RTN_LOCAL, "5.5.5.3": unix.RTN_LOCAL, "5.5.5.4": unix.RTN_LOCAL, "7.7.7.7": unix.RTN_LOCAL, "127.0.0.1": unix.RTN_LOCAL, "6.6.8.9": unix.RTN_LOCAL,
			"::ffff:5.5.5.3": unix.RTN_LOCAL, "2a05:5::2": unix.RTN_LOCAL, "2a05:5::3": unix.RTN_LOCAL, "::1": unix.RTN_LOCAL, "2a05:5::9": unix.RTN_UNICAST,
			"5.5.5.255": unix.RTN_BROADCAST, "5.5.5.9": unix.RTN_UNICAST, "8.8.8.8": unix.RTN_UNICAST, "224.0.0.1": unix.RTN_MULTICAST,
			"6.6.6.6": 0, "6.6.7.7": 0, "2a06::1": 0, "2a07::1": 0,
		} {
			var got byte
			var err error
			// The kernel adds the route of an IPv6 address of its own a little later, by a work
			// queue.
			env.Poll(10*time.Second, func() bool { got, err = rt.kind(netip.MustParseAddr(addr)); return got == want })
			if got != want || (err != nil) != (want == 0) {
				t.Errorf("%s: type %d, want %d: %v", addr, got, want, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHangUp: the kernel does not go on for long with a closed connection whose server takes nothing.
func TestHangUp(t *testing.T) {
	for name, end := range map[string]func(*net.TCPConn){
		"as it is": func(c *net.TCPConn) { hangUp(c) },
		"in TLS":   func(c *net.TCPConn) { hangUp(tls.Client(c, &tls.Config{})) },
		"in SSH":   func(c *net.TCPConn) { _ = outside{c}.Close() },
	} {
		up, _ := pair(t)
		kept, err := up.File()
		if err != nil {
			t.Fatal(err)
		}
		end(up)
		ms, err := unix.GetsockoptInt(int(kept.Fd()), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		if err != nil || ms != int(hangUpTime.Milliseconds()) {
			t.Errorf("%s: %d ms, %v", name, ms, err)
		}
		if _, err := up.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: still open: %v", name, err)
		}
		kept.Close()
	}
}
