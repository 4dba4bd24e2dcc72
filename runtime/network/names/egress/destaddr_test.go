package egress

import (
	"net/netip"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/netrules"
)

func own(a netip.Addr) bool {
	return a == netip.MustParseAddr("93.184.216.1") || a == netip.MustParseAddr("10.0.0.1")
}

var (
	plain = &netrules.Rule{Name: "a.example", Ports: []uint16{443}}
	priv  = &netrules.Rule{Name: "a.example", Ports: []uint16{443}, Private: true}
	wild  = &netrules.Rule{Name: "b.example", Wildcard: true, Private: true}
)

func TestAlwaysRefused(t *testing.T) {
	for a := range strings.FieldsSeq(`
		0.0.0.0 0.1.2.3 127.0.0.1 127.64.0.1 127.255.255.254 169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 192.0.0.8
		192.0.2.1 198.51.100.7 203.0.113.255 192.88.99.1 198.18.0.1 198.19.255.255 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
		93.184.216.1 10.0.0.1 ::ffff:10.0.0.1 ::ffff:93.184.216.1
		:: ::1 ::127.0.0.1 ::10.0.0.5 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::1
		fe80::1 fe80::1%eth0 feb0::1 fec0::1 ff02::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:10::1 2001:2::1 2001:db8::1 3fff::1 2002:7f00:1:: 2002:808:808::1
		fd00:ec2::254 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 100::1 5f00::1 4000::1
		2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:10.0.0.1`) {
		for _, r := range []*netrules.Rule{plain, priv, wild, {Addr: netip.MustParseAddr(a).WithZone("").Unmap(), Ports: []uint16{80}}} {
			if err := judgeAddr(netip.MustParseAddr(a), r, own); err == nil {
				t.Errorf("%s passes for %v", a, r)
			}
		}
	}
	if judgeAddr(netip.Addr{}, plain, own) == nil || judgeAddr(netip.MustParseAddr("8.8.8.8"), nil, own) == nil || judgeAddr(netip.MustParseAddr("8.8.8.8"), plain, nil) == nil {
		t.Error("what cannot be judged passes")
	}
}

func TestPrivate(t *testing.T) {
	for a := range strings.FieldsSeq("10.0.0.5 10.255.255.255 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.127.255.254 fd12::1 fc00::1 ::ffff:10.0.0.5") {
		addr := netip.MustParseAddr(a)
		for _, c := range []struct {
			r  *netrules.Rule
			ok bool
		}{{plain, false}, {wild, false}, {priv, true}, {&netrules.Rule{Addr: addr.Unmap()}, true}, {&netrules.Rule{Addr: netip.MustParseAddr("10.9.9.9")}, false}} {
			if err := judgeAddr(addr, c.r, own); (err == nil) != c.ok {
				t.Errorf("%s for %v: %v", a, c.r, err)
			}
		}
	}
}

func TestPublic(t *testing.T) {
	for a := range strings.FieldsSeq("8.8.8.8 93.184.216.34 ::ffff:8.8.8.8 172.15.0.1 172.32.0.1 100.63.255.255 100.128.0.1 11.0.0.1 192.0.1.1 198.17.0.1 198.20.0.1 223.255.255.1 2606:4700::1111 2a00:1450::1 2001:4860:4860::8888 2003::1") {
		for _, r := range []*netrules.Rule{plain, priv, wild} {
			if err := judgeAddr(netip.MustParseAddr(a), r, own); err != nil {
				t.Errorf("%s: %v", a, err)
			}
		}
	}
	if judgeAddr(netip.MustParseAddr("8.8.8.8"), &netrules.Rule{Addr: netip.MustParseAddr("8.8.4.4")}, own) == nil {
		t.Error("a rule for an address leads to another")
	}
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1}, false)
	f.Add(make([]byte, 16), true)
	f.Fuzz(func(t *testing.T, b []byte, p bool) {
		addr, ok := netip.AddrFromSlice(b)
		if !ok || judgeAddr(addr, &netrules.Rule{Name: "a", Private: p}, own) != nil {
			return
		}
		if a := addr.Unmap(); a.IsLoopback() || a.IsMulticast() || a.IsUnspecified() || a.IsLinkLocalUnicast() || own(a) || a.IsPrivate() && !p {
			t.Fatalf("%s passes", a)
		}
	})
}
