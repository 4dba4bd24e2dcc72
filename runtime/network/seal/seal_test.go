package seal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/spec/network"
)

func findings(t testing.TB, s *space) map[string]network.Finding {
	t.Helper()
	list, err := Verify(s.file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]network.Finding{}
	for _, f := range list {
		out[f.Name] = f
	}
	return out
}

func TestSealIsIdempotentAndVerified(t *testing.T) {
	s := newSpace(t)
	for _, name := range []string{SealLoopback, SealRules4, SealRules6, SealFilter, SealWaiting, SealResolver, SealSysctls} {
		if findings(t, s)[name].OK {
			t.Errorf("%s holds in a fresh namespace", name)
		}
	}
	var state string
	for round := range 3 {
		r := mustSeal(t, s)
		for name, f := range findings(t, s) {
			if !f.OK {
				t.Errorf("round %d: %s: %s", round, name, f.Detail)
			}
		}
		var names []string
		for _, f := range r.Protections {
			names = append(names, f.Name)
		}
		if want := []string{SealRules4, SealRules6, SealFilter, SealWaiting, SealResolver, SealLoopback, SealLinks, SealSysctls}; !slices.Equal(names, want) {
			t.Errorf("round %d: protections %v, want %v", round, names, want)
		}
		now := dumpState(t, s)
		if round > 0 && now != state {
			t.Errorf("round %d changed\n%s\nto\n%s", round, state, now)
		}
		state = now
	}
}

// dumpState is what ip(8) and nft(8) see.
func dumpState(t *testing.T, s *space) string {
	t.Helper()
	var b strings.Builder
	s.do(func() {
		for _, c := range []string{"ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all", "ip address", "nft list ruleset"} {
			args := strings.Fields(c)
			out, _ := exec.Command(args[0], args[1:]...).Output() // a missing tool adds nothing
			fmt.Fprintf(&b, "# %s\n%s", c, out)
		}
	})
	return b.String()
}

// TestVerifyNamesTheBrokenWall breaks one protection at a time. Seal then repairs it.
func TestVerifyNamesTheBrokenWall(t *testing.T) {
	nft := func(args ...string) func(s *space) error {
		return func(s *space) error {
			var err error
			s.do(func() {
				var out []byte
				if out, err = exec.Command("nft", args...).CombinedOutput(); err != nil {
					err = fmt.Errorf("nft %v: %w: %s", args, err, out)
				}
			})
			return err
		}
	}
	ip := func(args ...string) func(s *space) error {
		return func(s *space) error { return s.ip(args...) }
	}
	for _, tt := range []struct {
		name       string
		do         func(s *space) error
		protection string
	}{
		{"lo down", ip("link", "set", "lo", "down"), SealLoopback},
		{"address on lo", ip("addr", "add", "10.1.2.3/32", "dev", "lo"), SealLoopback},
		{"first rule gone", ip("rule", "del", "pref", "0"), SealRules4},
		{"last rule gone", ip("rule", "del", "pref", "0", "unreachable"), SealRules4},
		{"IPv6 rule gone", ip("-6", "rule", "del", "pref", "0", "blackhole"), SealRules6},
		{"all rules gone", func(s *space) error {
			return errors.Join(s.ip("rule", "del", "pref", "0"), s.ip("rule", "del", "pref", "0"), s.ip("rule", "del", "pref", "0"))
		}, SealRules4},
		{"rules in another order", func(s *space) error {
			return errors.Join(s.ip("rule", "del", "pref", "0"), s.ip("rule", "add", "pref", "0", "iif", "lo", "to", "127.0.0.0/8", "lookup", "local"))
		}, SealRules4},
		{"resolver reachable", ip("route", "del", "unreachable", "127.0.0.11", "table", "local"), SealResolver},
		{"resolver on lo", ip("route", "replace", "local", "127.0.0.11", "dev", "lo", "table", "local"), SealResolver},
		{"forwarding", func(s *space) error {
			var err error
			s.do(func() { err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
			return err
		}, SealSysctls},
		{"table gone", nft("delete", "table", "inet", nftTable), SealFilter},
		{"chain gone", nft("flush chain inet agentjail leave; delete chain inet agentjail leave"), SealFilter},
		{"rules of a chain gone", nft("flush", "chain", "inet", nftTable, "out"), SealFilter},
		{"policy accept", nft("chain inet agentjail in { policy accept; }"), SealFilter},
		{"rule added", nft("insert", "rule", "inet", nftTable, "out", "accept"), SealFilter},
		{"other address", nft("flush chain inet agentjail out; add rule inet agentjail out ip daddr 127.0.0.12 drop; add rule inet agentjail out oif 1 accept"), SealFilter},
		{"ceiling gone", nft("delete", "table", "inet", waitingTable), SealWaiting},
		{"ceiling passed by", nft("insert", "rule", "inet", waitingTable, "out", "accept"), SealWaiting},
		{"dormant", nft("add table inet agentjail { flags dormant; }"), SealFilter},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSpace(t)
			mustSeal(t, s)
			if err := tt.do(s); err != nil {
				if errors.Is(err, exec.ErrNotFound) {
					t.Skip(err)
				}
				t.Fatal(err)
			}
			for name, f := range findings(t, s) {
				// Without lo, its routes and the sysctls of IPv6 go as well: only the named
				// protection counts there.
				if f.OK == (name == tt.protection) && tt.protection != SealLoopback {
					t.Errorf("%s: OK %v (%s)", name, f.OK, f.Detail)
				}
				if name == tt.protection && f.OK {
					t.Errorf("%s holds", name)
				}
			}
			mustSeal(t, s)
			for name, f := range findings(t, s) {
				if !f.OK {
					t.Errorf("sealed again: %s: %s", name, f.Detail)
				}
			}
		})
	}
}

// TestNothingComesBeforeTheRules adds rules in every way that ip(8) offers: none is consulted
// before the seal's.
func TestNothingComesBeforeTheRules(t *testing.T) {
	s := newSpace(t)
	mustSeal(t, s)
	for _, family := range []string{"-4", "-6"} {
		for _, args := range [][]string{
			{"from", "all", "lookup", "101"}, // without a priority
			{"pref", "0", "from", "all", "lookup", "102"},
			{"pref", "1", "from", "all", "lookup", "103"},
		} {
			s.mustIP(t, slices.Concat([]string{family, "rule", "add"}, args)...)
		}
	}
	for name, f := range findings(t, s) {
		if !f.OK {
			t.Errorf("%s: %s", name, f.Detail)
		}
	}
	// And what was there before the seal is taken away from the front.
	s = newSpace(t)
	s.mustIP(t, "rule", "add", "pref", "0", "from", "10.0.0.0/8", "fwmark", "7", "lookup", "123")
	s.mustIP(t, "-6", "rule", "add", "pref", "0", "unreachable")
	mustSeal(t, s)
}

// TestPlugLater: an interface that comes later is reported and harmless, and taken down by the next
// Seal, without being deleted.
func TestPlugLater(t *testing.T) {
	l := newLab(t)
	mustSeal(t, l.jail)
	if f := findings(t, l.jail)[SealLinks]; !f.OK || f.Detail != "only lo" {
		t.Errorf("before: %+v", f)
	}
	l.plugIn(t)
	f := findings(t, l.jail)[SealLinks]
	if !f.OK || !strings.Contains(f.Detail, "eth7 is up (plugged in later") {
		t.Errorf("plugged in: %+v", f)
	}
	l.jail.mustIP(t, "rule", "del", "pref", "0")
	if f := findings(t, l.jail)[SealLinks]; f.OK {
		t.Errorf("plugged in and a protection broken: %+v", f)
	}
	mustSeal(t, l.jail)
	if f := findings(t, l.jail)[SealLinks]; !f.OK || f.Detail != "down: eth7" {
		t.Errorf("sealed again: %+v", f)
	}
	var routes string
	l.jail.do(func() {
		b, _ := exec.Command("sh", "-c", "ip route; ip -6 route").Output()
		routes = string(b)
	})
	if strings.Contains(routes, "eth7") || strings.Contains(routes, "default") {
		t.Errorf("routes left:\n%s", routes)
	}
}

// TestGatewayRefused: an engine's ordinary default route is refused after Seal, so `docker network
// connect` reports what is the matter.
func TestGatewayRefused(t *testing.T) {
	l := newLab(t)
	mustSeal(t, l.jail)
	l.plugIn(t)
	if err := l.jail.ip("route", "replace", "default", "via", l.hostIP4.String(), "dev", l.plug); err == nil {
		t.Error("the gateway was accepted")
	}
}

// TestPluggingInIsSilent looks at what the kernel itself sends: duplicate address detection,
// multicast reports, router solicitations, ARP and neighbour answers.
func TestPluggingInIsSilent(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprintf("sealed=%v", sealed), func(t *testing.T) {
			l := newLab(t)
			if sealed {
				mustSeal(t, l.jail)
			}
			l.plugIn(t)
			l.jail.mustIP(t, "addr", "add", "10.99.0.7/24", "dev", l.plug)
			watchDAD(t, l, func() { l.jail.mustIP(t, "addr", "add", "fd99::7/64", "dev", l.plug) })
			// The host sends ARP requests for the new addresses.
			for _, a := range []string{"10.99.0.7", "fd99::7"} {
				addr := netip.MustParseAddr(a)
				c := -1
				l.host.do(func() {
					family := unix.AF_INET6
					if addr.Is4() {
						family = unix.AF_INET
					}
					c, _ = socket(family, unix.SOCK_DGRAM)
					_ = unix.Sendto(c, []byte(payload), 0, sockaddr(addr, probePort, 0))
				})
				unix.Close(c)
			}
			asked := map[uint16]bool{}
			for _, f := range l.atJail(t) {
				asked[binary.BigEndian.Uint16(f[12:])] = true
			}
			if !asked[unix.ETH_P_ARP] || !asked[unix.ETH_P_IPV6] {
				t.Errorf("no questions came: %v", asked)
			}
			got := map[uint16]int{}
			frames := l.atHost(t)
			for _, f := range frames {
				got[binary.BigEndian.Uint16(f[12:])]++
			}
			if sealed && len(frames) > 0 {
				t.Errorf("frames sent:\n%s", describe(frames))
			}
			if !sealed && (got[unix.ETH_P_ARP] == 0 || got[unix.ETH_P_IPV6] < 2) {
				t.Errorf("expected an ARP answer, a neighbour answer and detection, got %v", got)
			}
		})
	}
}

// watchDAD runs add and waits for the kernel's word that the new address is no longer tentative:
// the detection's packets were sent.
func watchDAD(t *testing.T, l *lab, add func()) {
	t.Helper()
	fd := -1
	var err error
	l.jail.do(func() {
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+l.plug+"/accept_dad", []byte("1"), 0)
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (unix.RTNLGRP_IPV6_IFADDR - 1)})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30})
	add()
	c := &conn{fd: fd, in: make([]byte, recvBuffer)}
	for settled := false; !settled; {
		err := c.receive(0, func(h unix.NlMsghdr, body []byte) error {
			if h.Type == unix.RTM_NEWADDR && body[2]&unix.IFA_F_TENTATIVE == 0 {
				settled = true
			}
			return nil
		})
		if err != nil {
			t.Fatalf("wait for duplicate address detection: %v", err)
		}
	}
}

// TestDisabledIPv6: what turned IPv6 off on lo before the seal stays so, and the seal is whole.
func TestDisabledIPv6(t *testing.T) {
	s := newSpace(t)
	s.mustIP(t, "link", "set", "lo", "up")
	var err error
	s.do(func() { err = os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0) })
	if err != nil {
		t.Skip(err)
	}
	mustSeal(t, s)
	s.do(func() { err = echo("tcp", "[::1]:0", "") })
	if err == nil {
		t.Error("lo has ::1, although IPv6 is off")
	}
	s.do(func() { err = echo("tcp", "127.0.0.1:0", "") })
	if err != nil {
		t.Error(err)
	}
	for name, f := range findings(t, s) {
		if !f.OK {
			t.Errorf("%s: %s", name, f.Detail)
		}
	}
}

func TestWrongNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: joins network namespaces")
	}
	regular := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(regular, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, own := range map[string]bool{"/proc/self/ns/net": true, "/proc/self/ns/uts": false, regular: false, "/": false} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, call := range map[string]func() error{
			"Seal":   func() error { _, err := Seal(f); return err },
			"Verify": func() error { _, err := Verify(f); return err },
		} {
			if err := call(); err == nil || errors.Is(err, errOwnNamespace) != own {
				t.Errorf("%s(%s): %v", what, path, err)
			}
		}
		f.Close()
	}
}

// TestThreadsStayOut: no thread of the process is left in the jail's namespace.
func TestThreadsStayOut(t *testing.T) {
	s := newSpace(t)
	mustSeal(t, s)
	jail, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", s.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	// The thread is destroyed shortly after Seal has returned: look until it is.
	for {
		var inside []string
		tasks, _ := filepath.Glob("/proc/self/task/*/ns/net")
		for _, task := range tasks {
			if link, err := os.Readlink(task); err == nil && link == jail && !strings.Contains(task, fmt.Sprintf("/%d/", s.tid)) {
				inside = append(inside, task)
			}
		}
		if len(inside) == 0 {
			return
		}
	}
}

// TestTooMany: a dump stops at its bound.
func TestTooMany(t *testing.T) {
	s := newSpace(t)
	for i := range 4 {
		s.mustIP(t, "link", "add", fmt.Sprintf("v%d", i), "type", "veth")
	}
	sealPart(t, s, func(c *conn) error {
		m := message{typ: unix.RTM_GETLINK, body: make([]byte, unix.SizeofIfInfomsg)}
		if err := c.dump(m, 2, func() {}, func([]byte) error { return nil }); !errors.Is(err, errTooMany) {
			t.Errorf("dump: %v", err)
		}
		return nil
	})
	r := mustSeal(t, s)
	if len(r.Links) < 8 {
		t.Errorf("%d links reported", len(r.Links))
	}
}

// TestOpening reports which missing protections are an error.
func TestOpening(t *testing.T) {
	all := []string{SealLoopback, SealLinks, SealRules4, SealRules6, SealFilter, SealWaiting, SealResolver, SealSysctls}
	for _, tt := range []struct {
		missing []string
		fatal   bool
	}{
		{nil, false},
		{[]string{SealFilter}, false},
		{[]string{SealRules4, SealRules6}, false},
		{[]string{SealSysctls}, false},
		{[]string{SealWaiting}, false},
		{[]string{SealLinks}, true},
		{[]string{SealLoopback}, true},
		{[]string{SealFilter, SealRules4}, true},
		{[]string{SealFilter, SealRules6}, true},
		{[]string{SealFilter, SealResolver}, true},
		{all, true},
	} {
		var list []network.Finding
		for _, name := range all {
			list = append(list, network.Finding{Name: name, OK: !slices.Contains(tt.missing, name), Detail: "why"})
		}
		err := opening(list)
		if (err != nil) != tt.fatal || err != nil && !errors.Is(err, errNotSealed) {
			t.Errorf("missing %v: %v", tt.missing, err)
		}
	}
	if opening(nil) == nil {
		t.Error("no protections at all are fine")
	}
}

func FuzzParsers(f *testing.F) {
	f.Add([]byte{8, 0, 1, 0, 1, 2, 3, 4})
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		attributes(b)
		_, _ = parseRule(b)
		decodeExpr(b)
		_ = ackError(unix.NlMsghdr{Flags: 0x200}, b)
	})
}

// BenchmarkSeal seals fresh namespaces, as start does for a jail without an engine's network.
func BenchmarkSeal(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	for b.Loop() {
		b.StopTimer()
		file := freshNetns(b)
		b.StartTimer()
		if _, err := Seal(file); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		file.Close()
		b.StartTimer()
	}
}

func BenchmarkVerify(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	file := freshNetns(b)
	defer file.Close()
	if _, err := Seal(file); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Verify(file); err != nil {
			b.Fatal(err)
		}
	}
}

func freshNetns(b *testing.B) *os.File {
	var file *os.File
	err := thread.Own(func() error {
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			file, err = os.Open("/proc/thread-self/ns/net")
		}
		return err
	})
	if err != nil {
		b.Skip(err)
	}
	return file
}
