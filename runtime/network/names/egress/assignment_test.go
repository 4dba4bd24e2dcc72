package egress

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/internal/helperproto"
)

// given sends a text with descriptors, and returns the answer.
func given(t *testing.T, path, text string, fds ...int) string {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.WriteMsgUnix([]byte(text), unix.UnixRights(fds...), nil); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestAssignment: a helper that waits for its work refuses any other request, and work without the
// sockets that it describes, and continues to wait.
func TestAssignment(t *testing.T) {
	c, path := controlSocket(t, os.Geteuid())
	type taken struct {
		e   *assignment
		err error
	}
	got := make(chan taken, 1)
	go func() {
		e, err := c.awaitAssignment()
		got <- taken{e, err}
	}()
	socket := func(typ int) int {
		fd, err := unix.Socket(unix.AF_INET, typ|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
		}
		if err == nil && typ == unix.SOCK_STREAM {
			err = unix.Listen(fd, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	init, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(init)
	udp, tcp := socket(unix.SOCK_DGRAM), socket(unix.SOCK_STREAM)
	w := &helperproto.Work{Allow: []string{"api.example.test"}, Sockets: helperproto.Sockets{In: 1, Arrival: helperproto.Arrival{Way: helperproto.SkLookup}}}
	data, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	before := open(t)
	for _, bad := range []struct {
		text string
		fds  []int
	}{
		{`{"verb":"state"}`, nil},
		{`{`, []int{init}},
		{string(data), nil},
		{string(data), []int{init, udp, tcp, tcp, tcp}},
		{string(data), []int{init, udp, tcp, tcp, tcp, tcp, tcp}},
		{string(data), []int{init, tcp, tcp, tcp, tcp, tcp}},
		{string(data), []int{init, udp, tcp, init, tcp, tcp}},
		{strings.Replace(string(data), `"in":1`, `"in":-1`, 1), []int{init, udp, tcp, tcp}},
		{strings.Replace(string(data), `"in":1`, `"in":129`, 1), []int{init, udp, tcp, tcp}},
	} {
		if said := given(t, path, bad.text, bad.fds...); !strings.Contains(said, "waits for its work") {
			t.Errorf("%s with %d descriptors: %q", bad.text, len(bad.fds), said)
		}
	}
	if after := open(t); after > before { // what other tests have left is closed meanwhile
		t.Errorf("%d descriptors are open, and were %d before", after, before)
	}
	done := make(chan string)
	go func() { done <- given(t, path, string(data), init, udp, tcp, tcp, tcp, tcp) }()
	r := <-got
	if r.err != nil || r.e.sockets.UDP == nil || len(r.e.sockets.In) != 1 || r.e.sockets.SOCKS == nil || len(r.e.work.Allow) != 1 {
		t.Fatalf("%+v, %v", r.e, r.err)
	}
	defer r.e.sockets.Close()
	if err := r.e.answer(nil); err != nil {
		t.Fatal(err)
	}
	if said := <-done; said != "{}" {
		t.Errorf("served: %q", said)
	}
}

// open is how many descriptors this process has.
func open(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestAssignmentOfOthers: a helper takes its work only from its starter's user.
func TestAssignmentOfOthers(t *testing.T) {
	c, path := controlSocket(t, os.Geteuid()+1)
	go func() { _, _ = c.awaitAssignment() }()
	if said := sent(t, path, `{"sockets":{"in":0,"arrival":{"way":"sk_lookup"}}}`); said != "" {
		t.Errorf("%q", said)
	}
}
