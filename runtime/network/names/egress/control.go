package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/work"
)

// controlTime is how long one request may take.
const controlTime = 5 * time.Second

// control is the socket by which whoever started the helper changes the rules. It lies in the jail's directory of state, which no jail
// reaches.
type control struct {
	l *net.UnixListener
	// uid is whose requests are served: the user as whom the helper was started.
	uid uint32
}

// openControl takes the socket over. It is called before the helper changes its ids.
func openControl(f *os.File) (*control, error) {
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the control socket: %w", err)
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, errors.New("the control socket is none of the file system's")
	}
	u.SetUnlinkOnClose(false) // it has no files by then
	return &control{u, uint32(os.Geteuid())}, nil
}

// serve answers one request after the other.
func (c *control) serve(change func(work.Request) (work.Answer, error)) {
	for {
		conn, err := c.l.AcceptUnix()
		if err != nil {
			if fatal(err) {
				return
			}
			continue
		}
		c.answer(conn, change)
	}
}

func (c *control) answer(conn *net.UnixConn, change func(work.Request) (work.Answer, error)) {
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(controlTime)) != nil || !c.may(conn) {
		return
	}
	var a work.Answer
	r, err := readRequest(conn)
	if err == nil {
		a, err = change(r)
	}
	if err != nil {
		a = work.Answer{Error: err.Error()}
	}
	if data, err := json.Marshal(a); err == nil {
		_, _ = conn.Write(data)
	}
}

// may says whether it is the starter's user who asks.
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

// readRequest reads one request, to the end of what is sent.
func readRequest(from io.Reader) (work.Request, error) {
	var r work.Request
	data, err := io.ReadAll(io.LimitReader(from, work.MaxRequest+1))
	if err != nil {
		return r, fmt.Errorf("reading the request: %w", err)
	}
	if len(data) > work.MaxRequest {
		return r, fmt.Errorf("the request has more than %d bytes", work.MaxRequest)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("reading the request: %w", err)
	}
	if d.More() {
		return r, errors.New("more than one request")
	}
	if r.Verb != work.Rules {
		return r, fmt.Errorf("no such request: %.32q", r.Verb)
	}
	return r, nil
}
