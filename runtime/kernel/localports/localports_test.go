package localports

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHold: sockets of both families connect from the ports that they are held to, and from no
// other when those are in use.
func TestHold(t *testing.T) {
	if err := Can(); err != nil {
		t.Skipf("this kernel does not: %v", err)
	}
	const first, last = 50001, 50004
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Logf("%s: %v", host, err)
			continue
		}
		defer l.Close()
		d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			return errors.Join(c.Control(func(fd uintptr) { err = Hold(int(fd), first, last) }), err)
		}}
		for {
			c, err := d.Dial("tcp", l.Addr().String())
			if errors.Is(err, unix.EADDRNOTAVAIL) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if p := c.LocalAddr().(*net.TCPAddr).Port; p < first || p > last {
				t.Fatalf("%s: port %d", host, p)
			}
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Errorf("%s: another socket: %v", host, err)
			continue
		}
		c.Close()
	}
}
