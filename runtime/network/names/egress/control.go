package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/network/names/internal/helperproto"
)

// controlTime is how long one request may take.
const controlTime = 5 * time.Second

// control is the socket by which the helper's starter changes the rules. It is in the jail's
// directory of state, which no jail can reach.
type control struct {
	l *net.UnixListener
	// uid is the user whose requests are served: the helper's starter.
	uid uint32
}

// openControl takes over the listening socket, and serves requests of one user.
func openControl(f *os.File, owner uint32) (*control, error) {
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the control socket: %w", err)
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, errors.New("the control socket is not a Unix socket")
	}
	u.SetUnlinkOnClose(false) // it has no files by then
	return &control{u, owner}, nil
}

// requestHandler executes a request. It returns the answer, and a function to call if the answer
// could not be delivered.
type requestHandler func(helperproto.Request) (a helperproto.Answer, undelivered func(), err error)

// serve answers one request after the other.
func (c *control) serve(change requestHandler, attach func(*net.UnixConn) error) {
	for {
		conn, err := c.l.AcceptUnix()
		if err != nil {
			if fatal(err) {
				return
			}
			continue
		}
		if !c.answer(conn, change, attach) {
			conn.Close()
		}
	}
}

// answer answers a request. It reports whether the connection is kept.
func (c *control) answer(conn *net.UnixConn, change requestHandler, attach func(*net.UnixConn) error) (kept bool) {
	if conn.SetDeadline(time.Now().Add(controlTime)) != nil || !c.may(conn) {
		return false
	}
	var a helperproto.Answer
	undelivered := func() {}
	r, err := readRequest(conn)
	if abandoned(conn) {
		return false // the caller has reported a failure, and may have sent other rules since
	}
	if err == nil && r.Verb == helperproto.Attach {
		if err = attach(conn); err == nil {
			return true
		}
	} else if err == nil {
		a, undelivered, err = change(r)
	}
	if err != nil {
		a, undelivered = helperproto.Answer{Error: err.Error()}, func() {}
	}
	data, err := json.Marshal(a)
	if err == nil {
		_, err = conn.Write(data)
	}
	if err != nil {
		undelivered()
	}
	return false
}

// abandoned reports whether no process waits for the answer any more: the other end is closed, and
// not only for writing.
func abandoned(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	gone := true
	cerr := raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}} // POLLHUP is always reported
		_, err := unix.Poll(fds, 0)
		gone = err != nil && err != unix.EINTR || fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
	return cerr != nil || gone
}

// may reports whether the request comes from the starter's user.
func (c *control) may(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	cerr := raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ok = err == nil && cred.Uid == c.uid
	})
	return cerr == nil && ok
}

// verbs are the verbs that a request may have.
var verbs = []string{helperproto.Rules, helperproto.State, helperproto.Decide, helperproto.Waiting, helperproto.Attach}

// readRequest reads one request, to the end of the message.
func readRequest(from io.Reader) (helperproto.Request, error) {
	var r helperproto.Request
	data, err := atomicfile.ReadAll(from, helperproto.MaxRequest)
	if err != nil {
		return r, fmt.Errorf("reading the request: %w", err)
	}
	if err := helperproto.Strict(data, &r); err != nil {
		return r, fmt.Errorf("reading the request: %w", err)
	}
	if !slices.Contains(verbs, r.Verb) {
		return r, fmt.Errorf("no such request: %.32q", r.Verb)
	}
	return r, nil
}
