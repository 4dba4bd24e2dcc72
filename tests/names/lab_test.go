package names

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// Addresses of the lab. They are of no special range, and lead nowhere but to the lab.
const (
	hostAddr   = "5.5.5.2"
	serverAddr = "5.5.5.10"
	dnsAddr    = "5.5.5.53"
)

// zone is what the lab's name server knows.
var zone = map[string][4]byte{
	"api.example.test.":      {5, 5, 5, 10},
	"other.example.test.":    {5, 5, 5, 10},
	"a.wild.example.test.":   {5, 5, 5, 10},
	"private.example.test.":  {10, 5, 5, 10},
	"granted.example.test.":  {10, 5, 5, 10},
	"local.example.test.":    {127, 0, 0, 1},
	"metadata.example.test.": {169, 254, 169, 254},
	"self.example.test.":     {5, 5, 5, 2},
	"pod.example.test.":      {5, 5, 6, 2},
	"h2.example.test.":       {5, 5, 5, 11},
	"forge.example.test.":    {5, 5, 5, 12},
	"wrong.example.test.":    {5, 5, 5, 12},
}

// internet is the network behind the host.
type internet struct {
	ca    []byte // PEM
	mu    sync.Mutex
	asked []string // names that the name server was requested
	shown []string // values of Authorization that servers got
	tid   string   // a thread in its network namespace
	// do calls a function by that thread.
	do func(func() error)
}

// questions returns what the name server was requested since the last call.
func (n *internet) questions() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.asked
	n.asked = nil
	return out
}

// newInternet makes it, and the host's way there.
func newInternet(t *testing.T) *internet {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip(8) from iproute2")
	}
	n := &internet{}
	cert := n.certificate(t)
	place := env.Get(t, env.NewPlace)
	n.tid = strconv.Itoa(place.TID)
	n.do = func(f func() error) {
		t.Helper()
		env.Check(t, place.Do(f))
	}
	ip(t, "link", "set", "lo", "up")
	ip(t, "link", "add", "wan", "type", "veth", "peer", "name", "net", "netns", n.tid)
	ip(t, "addr", "add", hostAddr+"/24", "dev", "wan")
	ip(t, "link", "set", "wan", "up")
	ip(t, "route", "add", "default", "via", serverAddr)
	n.do(func() error {
		if err := env.IP("link set net up", "addr add "+serverAddr+"/24 dev net", "addr add "+dnsAddr+"/24 dev net", "addr add 10.5.5.10/24 dev net",
			"addr add 169.254.169.254/32 dev net"); err != nil {
			return err
		}
		return n.serve(cert)
	})
	t.Cleanup(func() { ip(t, "link", "del", "wan"); place.Close() })
	return n
}

// certificate makes a certificate for the lab's names.
func (n *internet) certificate(t *testing.T) (cert tls.Certificate) {
	t.Helper()
	var names []string
	for name := range zone {
		names = append(names, strings.TrimSuffix(name, "."))
	}
	cert, n.ca = env.Certificate(t, names...)
	return cert
}

// listen lets a listener at one address stand beside one at all of them, which then gets the rest.
func listen(addr, port string) (net.Listener, error) {
	l := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, set)
	}}
	return l.Listen(context.Background(), "tcp4", net.JoinHostPort(addr, port))
}

// serve listens in the calling thread's namespace.
func (n *internet) serve(cert tls.Certificate) error {
	dns, err := net.ListenPacket("udp4", dnsAddr+":53")
	if err != nil {
		return err
	}
	go env.ServeNames(dns, n.answer)
	handler := http.HandlerFunc(n.handle)
	for _, port := range []string{"443", "8443"} {
		l, err := listen("0.0.0.0", port)
		if err != nil {
			return err
		}
		go func() {
			_ = http.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}}), handler)
		}()
	}
	plain, err := listen("0.0.0.0", "80")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(plain, handler) }()
	speaks, err := listen("0.0.0.0", "22")
	if err != nil {
		return err
	}
	go env.Serve(speaks, greet)
	lines, err := listen("0.0.0.0", "7")
	if err != nil {
		return err
	}
	go env.Serve(lines, echoes)
	echo, err := net.ListenPacket("udp4", serverAddr+":443")
	if err != nil {
		return err
	}
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := echo.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(buf[:n], from)
		}
	}()
	return nil
}

// echoes sends a line first, and then what it receives, at once.
func echoes(c net.Conn) {
	_, _ = io.WriteString(c, "hello\n")
	_, _ = io.Copy(c, c)
}

// greet sends a line first, and then what it received, once that has ended.
func greet(c net.Conn) {
	_, _ = io.WriteString(c, "hello\n")
	said, _ := io.ReadAll(c)
	_, _ = c.Write(said)
}

// answer is the zone of the name server.
func (n *internet) answer(q dnsmessage.Question) ([]dnsmessage.Resource, bool) {
	n.mu.Lock()
	n.asked = append(n.asked, q.Name.String())
	n.mu.Unlock()
	if answers, trap := trapped(q); trap {
		return answers, true
	}
	a, known := zone[q.Name.String()]
	return env.Address(q, 1, netip.AddrFrom4(a)), known
}

// beClient is a program in a jail, without a word about its network: WHAT HOST PORT [SERVERNAME]. It prints what it got.
func beClient(args []string) int {
	out, err := ask(args)
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(out)
	return 0
}

// clientTime bounds a try; what is denied is denied at once, and a helper on a busy machine may take seconds to start.
const clientTime = 20 * time.Second

func ask(args []string) (string, error) {
	if program := programs[args[0]]; program != nil {
		return program()
	}
	if f := tools[args[0]]; f != nil {
		return f(args[1:])
	}
	what, host, port := args[0], args[1], args[2]
	ctx, cancel := context.WithTimeout(context.Background(), clientTime)
	defer cancel()
	at := net.JoinHostPort(host, port)
	switch what {
	case "look":
		addrs, err := net.DefaultResolver.LookupHost(ctx, host)
		slices.Sort(addrs)
		return strings.Join(addrs, " "), err
	case "take": // ports of an address, until standard input ends
		return "", beTaker(host, port, os.Stdin)
	case "udp":
		c, err := net.Dial("udp", at)
		if err != nil {
			return "", err
		}
		_ = c.SetDeadline(time.Now().Add(clientTime))
		if _, err := c.Write([]byte("ping")); err != nil {
			return "", err
		}
		buf := make([]byte, 16)
		n, err := c.Read(buf)
		return string(buf[:n]), err
	}
	what, proxy, _ := strings.Cut(what, " by ")
	to := at
	if proxy != "" {
		to = proxies[proxy].at
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if what == "stay" {
		return beStay(c, os.Stdin, os.Stdout)
	}
	_ = c.SetDeadline(time.Now().Add(clientTime))
	if proxy != "" {
		if err := proxies[proxy].ask(c, host, at); err != nil {
			return "", err
		}
	}
	return talk(c.(*net.TCPConn), what, host, args[3:])
}

// proxies are those in a jail, and how a client requests a connection from each.
var proxies = map[string]struct {
	at  string
	ask func(c net.Conn, host, at string) error
}{
	"CONNECT": {"127.0.0.1:3128", func(c net.Conn, _, at string) error {
		if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", at, at); err != nil {
			return err
		}
		// Nothing follows the answer's head before the client states something, but from a server that speaks first.
		head := make([]byte, 0, 512)
		for !bytes.HasSuffix(head, []byte("\r\n\r\n")) && len(head) < cap(head) {
			if _, err := io.ReadFull(c, head[len(head):len(head)+1]); err != nil {
				return fmt.Errorf("%s: %w", head, err)
			}
			head = head[:len(head)+1]
		}
		if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
			return fmt.Errorf("the proxy answers %s", head)
		}
		return nil
	}},
	"SOCKS5": {"127.0.0.1:1080", func(c net.Conn, host, at string) error {
		port := netip.MustParseAddrPort("0.0.0.0" + at[strings.LastIndexByte(at, ':'):]).Port()
		request := []byte{5, 1, 0, 5, 1, 0}
		if a, err := netip.ParseAddr(host); err == nil {
			request = append(append(request, 1), a.AsSlice()...)
		} else {
			request = append(append(request, 3, byte(len(host))), host...)
		}
		if _, err := c.Write(binary.BigEndian.AppendUint16(request, port)); err != nil {
			return err
		}
		answer := make([]byte, 12)
		if _, err := io.ReadFull(c, answer); err != nil {
			return err
		}
		if answer[3] != 0 {
			return fmt.Errorf("the proxy answers %d", answer[3])
		}
		return nil
	}},
}

func talk(c *net.TCPConn, what, host string, rest []string) (string, error) {
	switch what {
	case "https":
		name := host
		if len(rest) > 0 {
			name = rest[0]
		}
		// What is looked at is the way there; the server's certificate is the lab's for every name.
		s := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: name == "" || name != host, RootCAs: roots(), NextProtos: []string{"http/1.1"}})
		if err := s.Handshake(); err != nil {
			return "", err
		}
		return get(s, host)
	case "http":
		if len(rest) == 0 {
			rest = []string{host}
		}
		return get(c, rest...)
	case "greeted":
		if _, err := io.WriteString(c, "sent"); err != nil {
			return "", err
		}
		// After a reset this states that there is no connection; what was it is stated at the next read.
		cerr := c.CloseWrite()
		out, err := io.ReadAll(c)
		if err == nil {
			err = cerr
		}
		return strings.ReplaceAll(string(out), "\n", " "), err
	}
	return "", fmt.Errorf("no such client: %s", what)
}

// get requests each host in turn, over one connection, and returns the answers.
func get(c net.Conn, hosts ...string) (string, error) {
	var said []string
	r := bufio.NewReader(c)
	for _, host := range hosts {
		if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
			return "", err
		}
		a, err := http.ReadResponse(r, nil)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(a.Body)
		if err != nil {
			return "", err
		}
		said = append(said, strings.TrimSpace(string(body)))
		if a.StatusCode != http.StatusOK {
			return "", errors.New(strings.Join(said, "; "))
		}
	}
	return strings.Join(said, "; "), nil
}
