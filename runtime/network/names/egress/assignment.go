package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/names/internal/jailsock"
)

// assignment is the work with the descriptors that came with it.
type assignment struct {
	work    *helperproto.Work
	init    int // a pidfd of the jail's first process
	sockets *jailsock.Sockets
	netns   *os.File // the jail's, where it publishes; else nil
	conn    *net.UnixConn
	// answered reports that an activator has sent the answer.
	answered bool
}

// takeHeld reads the work from the connection that an activator holds unread.
func takeHeld(f *os.File) (*assignment, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("the work: %w", err)
	}
	conn, is := c.(*net.UnixConn)
	if !is {
		c.Close()
		return nil, errors.New("the work's connection is not a Unix socket")
	}
	e, err := receive(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	e.answered = true
	return e, nil
}

// awaitAssignment waits for the work. It refuses any other request before.
func (c *control) awaitAssignment() (*assignment, error) {
	for {
		conn, err := c.l.AcceptUnix()
		if err != nil {
			if fatal(err) {
				return nil, err
			}
			continue
		}
		if conn.SetDeadline(time.Now().Add(controlTime)) != nil || !c.may(conn) {
			conn.Close()
			continue
		}
		e, err := receive(conn)
		if err == nil && !abandoned(conn) {
			return e, nil
		}
		(&assignment{conn: conn}).answer(errors.Join(errors.New("it waits for its work"), err))
	}
}

// answer sends the answer to the work's sender.
func (e *assignment) answer(err error) error {
	defer e.conn.Close()
	if e.answered {
		return nil
	}
	var a helperproto.Answer
	if err != nil {
		a.Error = err.Error()
	}
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = e.conn.Write(data)
	return err
}

// maxRights bounds the descriptors of one message (SCM_MAX_FD of the kernel's, unix(7)).
const maxRights = 253

// receive reads the work, and the descriptors that come with its first byte.
func receive(conn *net.UnixConn) (_ *assignment, err error) {
	buf, rights := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(4*maxRights))
	defer clear(buf) // credentials are in it
	n, m, flags, _, err := conn.ReadMsgUnix(buf, rights)
	if err != nil {
		return nil, fmt.Errorf("reading the work: %w", err)
	}
	fds, err := descriptors(rights[:m])
	defer func() {
		if err != nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
	}()
	if err != nil {
		return nil, fmt.Errorf("reading the work's descriptors: %w", err)
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return nil, errors.New("not all of the work's descriptors could be had")
	}
	data, err := whole(conn, buf[:n])
	if err != nil {
		return nil, err
	}
	defer clear(data)
	w, err := helperproto.Decode(data)
	if err != nil {
		return nil, err
	}
	e := &assignment{work: w, conn: conn}
	want := 1 + jailsock.CountDescriptors(w.Sockets)
	if w.Publishes() {
		want++
	}
	if len(fds) != want {
		return nil, fmt.Errorf("%d descriptors with the work, not %d", len(fds), want)
	}
	e.init = fds[0]
	inside := fds[1 : 1+jailsock.CountDescriptors(w.Sockets)]
	fds = append(fds[:1:1], fds[1+len(inside):]...)
	if e.sockets, err = jailsock.FromDescriptors(inside, w.Sockets); err != nil {
		return nil, err
	}
	if w.Publishes() {
		e.netns = os.NewFile(uintptr(fds[1]), "network namespace")
	}
	return e, nil
}

// descriptors returns the descriptors of control messages.
func descriptors(control []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fds, err
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

// whole reads the rest of the message.
func whole(conn *net.UnixConn, begun []byte) ([]byte, error) {
	rest, err := atomicfile.ReadAll(conn, helperproto.MaxWork-int64(len(begun)))
	defer clear(rest)
	if err != nil {
		return nil, fmt.Errorf("reading the work: %w", err)
	}
	if len(begun)+len(rest) == 0 {
		return nil, errors.New("there is no work")
	}
	return append(append(make([]byte, 0, len(begun)+len(rest)), begun...), rest...), nil
}
