package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
)

// space is a fresh network namespace with a thread that works in it.
type space struct {
	file *os.File
	tid  int
	work chan func()
}

// newSpace makes a namespace that lives as long as the test.
func newSpace(t testing.TB) *space {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	s := &space{work: make(chan func())}
	ready := make(chan error, 1)
	go thread.Own(func() error {
		s.tid = unix.Gettid()
		// One CPU for everything: packets over a veth pair then arrive in the order in which they
		// were sent.
		var set unix.CPUSet
		set.Set(0)
		_ = unix.SchedSetaffinity(0, &set)
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			s.file, err = os.Open("/proc/thread-self/ns/net")
		}
		ready <- err
		for f := range s.work {
			f()
		}
		return nil
	})
	if err := <-ready; err != nil {
		t.Skipf("cannot make a network namespace: %v", err)
	}
	t.Cleanup(func() {
		close(s.work)
		s.file.Close()
	})
	return s
}

// do runs f on the namespace's thread. f must not end the goroutine (no t.Fatal).
func (s *space) do(f func()) {
	done := make(chan struct{})
	s.work <- func() { defer close(done); f() }
	<-done
}

// ip runs ip(8) in the namespace and returns its failure.
func (s *space) ip(args ...string) error {
	var err error
	s.do(func() {
		var out []byte
		if out, err = exec.Command("ip", args...).CombinedOutput(); err != nil {
			err = fmt.Errorf("ip %v: %w: %s", args, err, bytes.TrimSpace(out))
		}
	})
	return err
}

func (s *space) mustIP(t testing.TB, args ...string) {
	t.Helper()
	if err := s.ip(args...); err != nil {
		t.Fatal(err)
	}
}

// lab is a jail's namespace and the one of its host, joined by a veth pair: plug in the jail, port
// on the host.
type lab struct {
	jail, host           *space
	plug, port           string
	plugIndex, portIndex int
	plugMAC, portMAC     []byte
	tap, jailTap         int // packet sockets on port and plug
	jailIP4, hostIP4     netip.Addr
	jailIP6, hostIP6     netip.Addr
	jailLink, hostLink   netip.Addr // link-local
}

const (
	etherMarker = 0x88b5 // for local experiments (IEEE Std 802): no network code takes it
	payload     = "agentjail-probe"
)

func newLab(t testing.TB) *lab {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip(8) from iproute2")
	}
	l := &lab{
		jail: newSpace(t), host: newSpace(t), plug: "eth7", port: "port7", tap: -1, jailTap: -1,
		plugMAC: []byte{2, 0, 0, 0, 0, 2}, portMAC: []byte{2, 0, 0, 0, 0, 1},
		jailIP4: netip.MustParseAddr("10.99.0.2"), hostIP4: netip.MustParseAddr("10.99.0.1"),
		jailIP6: netip.MustParseAddr("fd99::2"), hostIP6: netip.MustParseAddr("fd99::1"),
		jailLink: netip.MustParseAddr("fe80::2"), hostLink: netip.MustParseAddr("fe80::1"),
	}
	l.jail.mustIP(t, "link", "set", "lo", "up")
	return l
}

// plugIn does what an engine does to connect a container: a veth pair, one end moved into the jail,
// addresses, UP, default routes. Neighbours are entered by hand, so that the first packet leaves
// without an ARP or ND answer.
func (l *lab) plugIn(t testing.TB) {
	t.Helper()
	h, j := l.host, l.jail
	h.mustIP(t, "link", "add", l.port, "address", "02:00:00:00:00:01", "type", "veth", "peer", "name", l.plug, "address", "02:00:00:00:00:02", "netns", fmt.Sprint(j.tid))
	for _, e := range l.ends() {
		l.furnish(t, e)
	}
	// A sealed namespace refuses a gateway that it cannot reach; onlink is the most that an engine
	// could do.
	j.mustIP(t, "route", "add", "default", "via", l.hostIP4.String(), "dev", l.plug, "onlink")
	j.mustIP(t, "-6", "route", "add", "default", "via", l.hostIP6.String(), "dev", l.plug, "onlink")
	l.portIndex, l.tap = tapOn(t, h, l.port)
	l.plugIndex, l.jailTap = tapOn(t, j, l.plug)
	t.Cleanup(func() { unix.Close(l.tap); unix.Close(l.jailTap) })
}

// end is one side of the veth pair.
type end struct {
	s         *space
	dev       string
	addresses []string // with prefix lengths
	peers     []netip.Addr
	peerMAC   string
}

func (l *lab) ends() [2]end {
	return [2]end{
		{l.host, l.port, []string{l.hostIP4.String() + "/24", l.hostIP6.String() + "/64", l.hostLink.String() + "/64"}, []netip.Addr{l.jailIP4, l.jailIP6, l.jailLink}, "02:00:00:00:00:02"},
		{l.jail, l.plug, []string{l.jailIP4.String() + "/24", l.jailIP6.String() + "/64", l.jailLink.String() + "/64"}, []netip.Addr{l.hostIP4, l.hostIP6, l.hostLink}, "02:00:00:00:00:01"},
	}
}

// furnish sets an end up and adds its addresses and neighbours.
func (l *lab) furnish(t testing.TB, e end) {
	t.Helper()
	e.s.do(func() {
		for name, value := range map[string]string{
			"disable_ipv6":  "0", // Docker turns IPv6 on for its interfaces
			"accept_dad":    "0",
			"addr_gen_mode": "1", // no address but ours
		} {
			_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+e.dev+"/"+name, []byte(value), 0)
		}
	})
	e.s.mustIP(t, "link", "set", e.dev, "up")
	for _, a := range e.addresses {
		args := []string{"addr", "replace", a, "dev", e.dev}
		if strings.Contains(a, ":") {
			args = append(args, "nodad")
		} else {
			args = append(args, "brd", "+")
		}
		e.s.mustIP(t, args...)
	}
	for _, peer := range e.peers {
		e.s.mustIP(t, "neigh", "replace", peer.String(), "lladdr", e.peerMAC, "dev", e.dev, "nud", "permanent")
	}
}

func htons(v uint16) uint16 { return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v)) }

func ifIndex(name string) int {
	b, err := os.ReadFile("/proc/thread-self/net/dev_snmp6/" + name)
	if err != nil {
		return 0
	}
	var index int
	_, _ = fmt.Sscanf(string(b), "ifIndex %d", &index)
	return index
}

// tapOn opens a packet socket on a device.
func tapOn(t testing.TB, s *space, dev string) (index, fd int) {
	t.Helper()
	var err error
	s.do(func() {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		if err != nil {
			return
		}
		index = ifIndex(dev)
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: index})
	})
	if err != nil || index == 0 {
		t.Fatalf("packet socket on %s (index %d): %v", dev, index, err)
	}
	return index, fd
}

// settle sends a marker frame from one tap and collects what the other one received before it: when
// the marker is there, everything sent earlier is there, too. Frames that the tap's own side sent
// are left out.
func settle(t testing.TB, from *space, out, in int, src, dst []byte) [][]byte {
	t.Helper()
	frame := append(append(append([]byte(nil), dst...), src...), etherMarker>>8, etherMarker&0xff)
	frame = append(frame, make([]byte, 46)...)
	var err error
	from.do(func() { _, err = unix.Write(out, frame) })
	if err != nil {
		t.Fatalf("send marker: %v", err)
	}
	var frames [][]byte
	for {
		b := make([]byte, 1<<16)
		n, from, err := unix.Recvfrom(in, b, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.Fatalf("receive frames: %v", err)
		}
		if a, ok := from.(*unix.SockaddrLinklayer); ok && a.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if n > 14 && binary.BigEndian.Uint16(b[12:]) == etherMarker {
			return frames
		}
		frames = append(frames, b[:n])
	}
}

// atHost returns the frames that came out of the jail; atJail those that came into it.
func (l *lab) atHost(t testing.TB) [][]byte {
	t.Helper()
	return settle(t, l.jail, l.jailTap, l.tap, l.plugMAC, l.portMAC)
}

func (l *lab) atJail(t testing.TB) [][]byte {
	t.Helper()
	return settle(t, l.host, l.tap, l.jailTap, l.portMAC, l.plugMAC)
}

// sealPart puts up the given protections only: the tests that show what each is good for.
func sealPart(t testing.TB, s *space, f func(c *conn) error) {
	t.Helper()
	err := inNamespace(s.file, func() error {
		c, err := dial(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer c.close()
		return f(c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func mustSeal(t testing.TB, s *space) Report {
	t.Helper()
	r, err := Seal(s.file)
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Missing(); len(m) > 0 {
		t.Fatalf("protections missing: %+v", m)
	}
	return r
}

// socket opens a non-blocking socket in the calling thread's namespace.
func socket(family, kind int) (int, error) {
	return unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

func sockaddr(a netip.Addr, port, zone int) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: port}
	}
	return &unix.SockaddrInet6{Addr: a.As16(), Port: port, ZoneId: uint32(zone)}
}
