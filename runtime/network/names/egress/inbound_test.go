package egress

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/spec/publish"
	"agentjail.dev/tests/env"
)

// TestFromEngine: connections in the engine's network arrive at the ports that may, with the port that they were made to, and no others
// do: with a look-up of sockets, and by a listener for each port.
func TestFromEngine(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("makes network namespaces; needs root")
	}
	entry, err := publish.Parse("0.0.0.0:7001:80")
	if err != nil {
		t.Fatal(err)
	}
	for way, listen := range map[string]func(*inbound) error{"sk_lookup": (*inbound).fromEngine, "listeners": (*inbound).eachPort} {
		ns := emptyNetwork(t)
		in := &inbound{engine: []publish.Range{{First: 7000, Last: 7001}, {First: 7005, Last: 7005}}}
		if way == "sk_lookup" {
			in.entries = []publish.Entry{entry}
		}
		if err := within(t, ns, func() error { return listen(in) }); err != nil {
			t.Errorf("%s: %v", way, err)
			continue
		}
		if want := map[string]int{"sk_lookup": 1, "listeners": 3}[way]; len(in.arriving) != want {
			t.Errorf("%s: %d listeners", way, len(in.arriving))
		}
		arrived := make(chan publish.Entry)
		for _, l := range in.arriving {
			go func() {
				for {
					c, err := l.AcceptTCP()
					if err != nil {
						return
					}
					e, _, ok := in.asArrived(c)
					c.Close()
					if !ok {
						e = publish.Entry{}
					}
					arrived <- e
				}
			}()
		}
		try := func(at string) (got publish.Entry, err error) {
			var c net.Conn
			if err = within(t, ns, func() (err error) { c, err = net.DialTimeout("tcp", at, 30*time.Second); return err }); err != nil {
				return got, err
			}
			defer c.Close()
			return <-arrived, nil
		}
		second := uint16(7001)
		if way == "sk_lookup" {
			second = 80 // the jail's own word comes first
		}
		for at, port := range map[string]uint16{"192.0.2.1:7000": 7000, "192.0.2.1:7001": second, "192.0.2.1:7005": 7005, "127.0.0.1:7000": 7000} {
			if e, err := try(at); err != nil || e.Port != port || e.At != netip.MustParseAddrPort(at) && port != 80 {
				t.Errorf("%s: %s arrives as %+v, %v", way, at, e, err)
			}
		}
		closed := []string{"192.0.2.1:6999", "192.0.2.1:7002", "192.0.2.1:7006", "192.0.2.1:80"}
		if way == "sk_lookup" {
			closed = append(closed, "127.0.0.11:7000")
			if e, err := try(in.arriving[0].Addr().String()); err != nil || e.Port != 0 {
				t.Errorf("the listener's own port: %+v, %v", e, err)
			}
		}
		for _, at := range closed {
			if e, err := try(at); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("%s: %s arrives as %+v, %v", way, at, e, err)
			}
		}
		for _, l := range in.arriving {
			l.Close()
		}
	}
	in := &inbound{engine: []publish.Range{{First: 7000, Last: 7999}}}
	if err := within(t, emptyNetwork(t), in.eachPort); err == nil {
		t.Error("more listeners than there may be")
	}
}

// emptyNetwork is a network namespace with 192.0.2.1 on lo.
func emptyNetwork(t *testing.T) (ns *os.File) {
	t.Helper()
	err := thread.Own(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if err := env.IP("link set lo up", "addr add 192.0.2.1/32 dev lo"); err != nil {
			return err
		}
		ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}

// within calls a function in a network namespace.
func within(t *testing.T, ns *os.File, f func() error) error {
	t.Helper()
	return thread.Own(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}
