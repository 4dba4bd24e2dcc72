package names

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// Further addresses of the host and of the lab's servers.
const (
	hostSecond  = "5.5.5.3" // of the same interface
	hostOther   = "7.7.7.7" // of lo
	hostSix     = "2a05:5::2"
	hostSixToo  = "2a05:5::3"
	serverSix   = "2a05:5::10"
	sentinelAt  = "5.5.5.10:9"
	trapDomain  = ".trap.example.test."
	trapAllowed = "six"
)

// trapZone are names of a zone that a stranger owns, and what the stranger's name server answers.
var trapZone = map[string][]string{
	"loopback": {"127.0.0.1"}, "the-range": {"127.64.0.1"}, "zero": {"0.0.0.0"}, "private-10": {"10.5.5.10"}, "private-172": {"172.16.5.10"}, "private-192": {"192.168.5.10"}, "shared": {"100.64.5.10"},
	"metadata": {"169.254.169.254"}, "alibaba": {"100.100.100.200"}, "azure": {"168.63.129.16"}, "oracle": {"192.0.0.192"}, "link-local": {"169.254.5.10"}, "benchmarks": {"198.18.0.1"}, "documents": {"192.0.2.1"},
	"multicast": {"224.0.0.1"}, "broadcast": {"255.255.255.255"}, "subnet-broadcast": {"5.5.5.255"}, "reserved": {"240.0.0.1"}, "relay": {"192.88.99.1"},
	"host": {hostAddr}, "host-second": {hostSecond}, "host-lo": {hostOther}, "host-six": {hostSix}, "host-six-second": {hostSixToo},
	"loopback-six": {"::1"}, "nothing-six": {"::"}, "link-local-six": {"fe80::1"}, "unique-local": {"fd05::10"}, "metadata-six": {"fd00:ec2::254"}, "multicast-six": {"ff02::1"}, "documents-six": {"2001:db8::10"},
	"mapped": {"::ffff:10.5.5.10"}, "mapped-loopback": {"::ffff:127.0.0.1"}, "mapped-host": {"::ffff:5.5.5.3"}, "compatible": {"::5.5.5.10"}, "nat64": {"64:ff9b::505:50a"}, "nat64-own": {"64:ff9b:1::505:50a"}, "six-to-four": {"2002:505:50a::1"}, "teredo": {"2001:0:505:50a::1"}, "isatap": {"2a05:5::5efe:a05:50a"},
	"several": {"127.0.0.1", "10.5.5.10", hostSecond, "169.254.169.254", "::1", hostSixToo}, "alias": {"private-10" + trapDomain, "10.5.5.10"}, "alias-to-loopback": {"localhost.", "127.0.0.1"}, "alias-to-host": {"other.example.test.", hostSecond},
	"blackhole": {"6.6.6.6"}, "empty": {},
}

// rebound are the answers for one name, by turns.
var rebound = []string{"127.0.0.1", "10.5.5.10", "169.254.169.254", hostAddr, hostSecond}

var turns atomic.Int32

// trapped is the answer for a name of the zone.
func trapped(q dnsmessage.Question) ([]dnsmessage.Resource, bool) {
	label, ok := strings.CutSuffix(q.Name.String(), trapDomain)
	if !ok {
		return nil, false
	}
	values, ok := trapZone[label]
	switch label {
	case trapAllowed:
		values, ok = []string{serverSix}, true
	case "rebind":
		values, ok = rebound[int(turns.Add(1))%len(rebound):][:1], true
	}
	var out []dnsmessage.Resource
	head := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0}
	for _, v := range values {
		a, err := netip.ParseAddr(v)
		switch {
		case err != nil:
			to := dnsmessage.MustNewName(v)
			out = append(out, dnsmessage.Resource{Header: head, Body: &dnsmessage.CNAMEResource{CNAME: to}})
			head.Name = to
		case q.Type == dnsmessage.TypeA && a.Is4():
			out = append(out, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			out = append(out, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	return out, ok
}

// widen gives the host more addresses, and the lab IPv6.
func (n *internet) widen(t *testing.T) {
	t.Helper()
	for _, args := range []string{
		"addr add " + hostSecond + "/24 dev wan", "addr add " + hostOther + "/32 dev lo", "-6 addr add " + hostSix + "/64 dev wan nodad", "-6 addr add " + hostSixToo + "/64 dev wan nodad",
		"-6 route add default via " + serverSix, "route add blackhole 6.6.6.0/24",
	} {
		ip(t, strings.Fields(args)...)
	}
	// What is not wan's does not go with it.
	t.Cleanup(func() {
		ip(t, "addr", "del", hostOther+"/32", "dev", "lo")
		ip(t, "route", "del", "blackhole", "6.6.6.0/24")
	})
	n.do(func() error {
		if err := env.IP("-6 addr add " + serverSix + "/64 dev net nodad"); err != nil {
			return err
		}
		l, err := net.Listen("tcp6", "["+serverSix+"]:22")
		if err == nil {
			go env.Serve(l, greet)
		}
		return err
	})
	// What a name that led to the host itself would reach.
	for _, at := range []string{hostAddr, hostSecond, hostOther, hostSix, hostSixToo, "127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(at, "22"))
		env.Check(t, err)
		t.Cleanup(func() { l.Close() })
		go env.Serve(l, greet)
	}
}

// A wire records what arrives in the lab.
type wire struct {
	mu   sync.Mutex
	seen []string // what is not only the name server's
	told chan string
}

// watch begins to record all packets that arrive.
func (n *internet) watch(t *testing.T) *wire {
	t.Helper()
	w := &wire{told: make(chan string, 16)}
	var fd int
	n.do(func() error {
		link, err := net.InterfaceByName("net")
		if err != nil {
			return err
		}
		all := uint16(unix.ETH_P_ALL)>>8 | uint16(unix.ETH_P_ALL)<<8
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all)); err != nil {
			return err
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20)
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
	})
	// A receive that ends, so that the reader does: closing a descriptor wakes no reader.
	env.Check(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100000}))
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-stopped; unix.Close(fd) })
	go func() {
		defer close(stopped)
		buf := make([]byte, 70000)
		for {
			select {
			case <-stop:
				return
			default:
			}
			k, from, err := unix.Recvfrom(fd, buf, 0)
			if ll, ok := from.(*unix.SockaddrLinklayer); err == nil && ok && ll.Pkttype != unix.PACKET_OUTGOING {
				w.packet(ll.Protocol<<8|ll.Protocol>>8, buf[:k])
			}
		}
	}()
	return w
}

// packet takes one. Every one that is not of a connection that stands, or a question for the name server, is reported; and every one with
// the word that must not arrive.
func (w *wire) packet(protocol uint16, b []byte) {
	what := ""
	switch {
	case protocol == unix.ETH_P_IP && len(b) >= 20:
		head := int(b[0]&15) * 4
		dst := netip.AddrFrom4([4]byte(b[16:20]))
		what = w.transport(int(b[9]), dst, b[min(head, len(b)):])
	case protocol == unix.ETH_P_IPV6 && len(b) >= 40:
		what = w.transport(int(b[6]), netip.AddrFrom16([16]byte(b[24:40])), b[40:])
	case protocol == unix.ETH_P_ARP:
	default:
		what = fmt.Sprintf("a packet of protocol %#x", protocol)
	}
	if bytes.Contains(bytes.ToLower(b), []byte("bypass")) {
		what += fmt.Sprintf(" with %.200q", b)
	}
	if what != "" {
		w.mu.Lock()
		w.seen = append(w.seen, what)
		w.mu.Unlock()
	}
}

func (w *wire) transport(protocol int, dst netip.Addr, b []byte) string {
	if len(b) < 8 {
		return fmt.Sprintf("a short packet to %s", dst)
	}
	to := netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[2:])).String()
	switch {
	case protocol == unix.IPPROTO_TCP && len(b) > 13 && b[13]&0x12 == 0x02: // SYN
		return "TCP to " + to
	case protocol == unix.IPPROTO_TCP:
		return ""
	case protocol == unix.IPPROTO_UDP && to == dnsAddr+":53":
		return ""
	case protocol == unix.IPPROTO_UDP && to == sentinelAt:
		w.told <- string(b[8:])
		return ""
	case protocol == unix.IPPROTO_ICMPV6 && b[0] >= 130 && b[0] <= 143, protocol == 0: // neighbors and groups of the link
		return ""
	case protocol == unix.IPPROTO_ICMP && b[0] == 3: // the host's answer to what the lab sent too late
		return ""
	}
	return fmt.Sprintf("protocol %d to %s", protocol, to)
}

// arrived is what has arrived since the last call.
func (w *wire) arrived(t *testing.T) []string {
	t.Helper()
	word := fmt.Sprint(time.Now().UnixNano())
	c, err := net.Dial("udp4", sentinelAt)
	env.Check(t, err)
	defer c.Close()
	late := time.NewTimer(env.AnswerWait)
	defer late.Stop()
	for again := time.NewTicker(500 * time.Millisecond); ; {
		_, _ = c.Write([]byte(word))
		select {
		case got := <-w.told:
			if got != word {
				continue
			}
			again.Stop()
			w.mu.Lock()
			defer w.mu.Unlock()
			out := w.seen
			w.seen = nil
			return out
		case <-again.C:
		case <-late.C:
			t.Fatal("nothing is recorded of what arrives")
		}
	}
}
