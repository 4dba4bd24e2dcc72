package seal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Netlink messages by hand: sealing needs only a handful of message kinds, and a library that reads
// the whole namespace into maps would slow each start. Layout: netlink(7), rtnetlink(7),
// linux/netfilter/nfnetlink.h.

const (
	nlmsgHeader = unix.SizeofNlMsghdr
	// chunk bounds how many requests are sent at once, so that their acknowledgements always fit
	// the socket's receive buffer.
	chunk = 64
	// recvBuffer holds the largest datagram that the kernel builds for a dump (NLMSG_GOODSIZE or 32
	// KiB, net/netlink/af_netlink.c).
	recvBuffer = 64 << 10
)

// errTooMany is returned if a namespace holds more objects than are read.
var errTooMany = errors.New("more objects than a jail's network namespace may hold")

// message is one netlink request or one received message: its type, its flags, and what follows the
// netlink header (the fixed part of the subsystem, then attributes).
type message struct {
	typ   uint16
	flags uint16
	body  []byte
}

func align4(n int) int { return (n + 3) &^ 3 }

// attr appends one attribute, padded to four bytes.
func (m *message) attr(typ uint16, data []byte) {
	m.body = binary.NativeEndian.AppendUint16(m.body, uint16(unix.SizeofNlAttr+len(data)))
	m.body = binary.NativeEndian.AppendUint16(m.body, typ)
	m.body = append(m.body, data...)
	for len(m.body)%4 != 0 {
		m.body = append(m.body, 0)
	}
}

func (m *message) attrU32(typ uint16, v uint32) {
	m.attr(typ, binary.NativeEndian.AppendUint32(nil, v))
}

// attrBE32 appends a number in network byte order, as nf_tables requires.
func (m *message) attrBE32(typ uint16, v uint32) {
	m.attr(typ, binary.BigEndian.AppendUint32(nil, v))
}

func (m *message) attrBE64(typ uint16, v uint64) {
	m.attr(typ, binary.BigEndian.AppendUint64(nil, v))
}

func (m *message) attrString(typ uint16, s string) {
	m.attr(typ, append([]byte(s), 0))
}

// nest appends an attribute that holds the attributes which fill adds.
func (m *message) nest(typ uint16, fill func(*message)) {
	start := len(m.body)
	m.body = append(m.body, 0, 0, 0, 0)
	fill(m)
	binary.NativeEndian.PutUint16(m.body[start:], uint16(len(m.body)-start))
	binary.NativeEndian.PutUint16(m.body[start+2:], typ|unix.NLA_F_NESTED)
}

// appendTo writes the message in wire form.
func (m *message) appendTo(b []byte, seq uint32) []byte {
	length := nlmsgHeader + len(m.body)
	b = binary.NativeEndian.AppendUint32(b, uint32(length))
	b = binary.NativeEndian.AppendUint16(b, m.typ)
	b = binary.NativeEndian.AppendUint16(b, m.flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0) // port: the kernel fills in ours
	b = append(b, m.body...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// attribute is one received attribute; the nesting and byte-order flags are stripped from typ.
type attribute struct {
	typ  uint16
	data []byte
}

// attributeList is a list of received attributes.
type attributeList []attribute

// attributes splits b into attributes. Malformed data at the end is ignored: the kernel sends none,
// and each caller checks for the attributes that it needs.
func attributes(b []byte) (out attributeList) {
	for len(b) >= unix.SizeofNlAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofNlAttr || n > len(b) {
			break
		}
		out = append(out, attribute{
			typ:  binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER),
			data: b[unix.SizeofNlAttr:n],
		})
		b = b[min(align4(n), len(b)):]
	}
	return out
}

// get returns the first attribute of a type; nil for none.
func (l attributeList) get(typ uint16) []byte {
	for _, a := range l {
		if a.typ == typ {
			return a.data
		}
	}
	return nil
}

func nativeU32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

func bigU32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// conn is a netlink socket. It stays in the network namespace in which it was opened.
type conn struct {
	fd  int
	seq uint32
	out []byte
	in  []byte
}

// dial opens a netlink socket of a protocol (unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER) in
// the thread's network namespace.
func dial(protocol int) (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	// Old kernels lack both options (short acknowledgements, reasons as text), so an error is
	// ignored.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
	return &conn{fd: fd, in: make([]byte, recvBuffer)}, nil
}

func (c *conn) close() { unix.Close(c.fd) }

func (c *conn) send(b []byte) error {
	for {
		err := unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if err != unix.EINTR {
			return err
		}
	}
}

// receive calls each for every message of the next datagram. Only the kernel's own messages count
// (port 0).
func (c *conn) receive(flags int, each func(h unix.NlMsghdr, body []byte) error) error {
	var n int
	var from unix.Sockaddr
	for {
		var err error
		n, _, _, from, err = unix.Recvmsg(c.fd, c.in, nil, flags|unix.MSG_TRUNC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	if n > len(c.in) {
		return fmt.Errorf("netlink: message of %d bytes is too long", n)
	}
	if a, ok := from.(*unix.SockaddrNetlink); !ok || a.Pid != 0 {
		return nil
	}
	b := c.in[:n]
	for len(b) >= nlmsgHeader {
		h := unix.NlMsghdr{
			Len:   binary.NativeEndian.Uint32(b),
			Type:  binary.NativeEndian.Uint16(b[4:]),
			Flags: binary.NativeEndian.Uint16(b[6:]),
			Seq:   binary.NativeEndian.Uint32(b[8:]),
			Pid:   binary.NativeEndian.Uint32(b[12:]),
		}
		if int(h.Len) < nlmsgHeader || int(h.Len) > len(b) {
			return errors.New("netlink: malformed message")
		}
		if err := each(h, b[nlmsgHeader:h.Len]); err != nil {
			return err
		}
		b = b[min(align4(int(h.Len)), len(b)):]
	}
	return nil
}

// ackError decodes the body of an NLMSG_ERROR message: nil for an acknowledgement, else the errno
// with the kernel's reason.
func ackError(h unix.NlMsghdr, body []byte) error {
	if len(body) < 4 {
		return errors.New("netlink: malformed acknowledgement")
	}
	code := int32(binary.NativeEndian.Uint32(body))
	if code == 0 {
		return nil
	}
	err := error(syscall.Errno(-code))
	// Attributes follow the echoed request.
	if h.Flags&unix.NLM_F_ACK_TLVS == 0 || len(body) < 4+nlmsgHeader {
		return err
	}
	skip := 4 + nlmsgHeader
	if h.Flags&unix.NLM_F_CAPPED == 0 { // the request is echoed as a whole
		skip = 4 + align4(int(binary.NativeEndian.Uint32(body[4:])))
	}
	if skip > len(body) {
		return err
	}
	if msg := attributes(body[skip:]).get(unix.NLMSGERR_ATTR_MSG); msg != nil {
		return fmt.Errorf("%w (%s)", err, unix.ByteSliceToString(msg))
	}
	return err
}

// do sends the requests in order and returns the kernel's answer to each. The second result is a
// failure of the socket itself.
func (c *conn) do(msgs ...message) ([]error, error) {
	errs := make([]error, 0, len(msgs))
	for len(msgs) > 0 {
		n := min(len(msgs), chunk)
		part := make([]error, n)
		c.out = c.out[:0]
		first := c.seq + 1
		for _, m := range msgs[:n] {
			c.seq++
			m.flags |= unix.NLM_F_REQUEST | unix.NLM_F_ACK
			c.out = m.appendTo(c.out, c.seq)
		}
		if err := c.send(c.out); err != nil {
			return errs, err
		}
		for pending := n; pending > 0; {
			err := c.receive(0, func(h unix.NlMsghdr, body []byte) error {
				if i := h.Seq - first; h.Type == unix.NLMSG_ERROR && i < uint32(n) {
					part[i] = ackError(h, body)
					pending--
				}
				return nil
			})
			if err != nil {
				return errs, err
			}
		}
		errs = append(errs, part...)
		msgs = msgs[n:]
	}
	return errs, nil
}

// dump sends a dump request and calls each with the body of every answer, at most limit of them
// (errTooMany beyond). A table that changed underneath (NLM_F_DUMP_INTR) is read again: reset is
// called before every reading.
func (c *conn) dump(m message, limit int, reset func(), each func(body []byte) error) error {
	m.flags |= unix.NLM_F_REQUEST | unix.NLM_F_DUMP
	for range 10 {
		reset()
		again, err := c.dumpOnce(m, limit, each)
		if err != nil || !again {
			return err
		}
	}
	return errors.New("netlink: the table changes faster than it can be read")
}

func (c *conn) dumpOnce(m message, limit int, each func(body []byte) error) (interrupted bool, err error) {
	c.seq++
	seq := c.seq
	c.out = m.appendTo(c.out[:0], seq)
	if err := c.send(c.out); err != nil {
		return false, err
	}
	var failed error // remembered, so that the rest of the dump is still drained from the socket
	count := 0
	for done := false; !done; {
		err := c.receive(0, func(h unix.NlMsghdr, body []byte) error {
			if h.Seq != seq {
				return nil
			}
			if h.Flags&unix.NLM_F_DUMP_INTR != 0 {
				interrupted = true
			}
			switch h.Type {
			case unix.NLMSG_DONE:
				done = true
				if len(body) >= 4 {
					if code := int32(nativeU32(body)); code < 0 && failed == nil {
						failed = syscall.Errno(-code)
					}
				}
			case unix.NLMSG_ERROR:
				done = true
				if e := ackError(h, body); e != nil && failed == nil {
					failed = e
				}
			default:
				if failed != nil {
					return nil
				}
				if count++; count > limit {
					// The rest is not read: a hostile table may have any length. The socket is not
					// used again.
					return errTooMany
				}
				failed = each(body)
			}
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	return interrupted, failed
}
