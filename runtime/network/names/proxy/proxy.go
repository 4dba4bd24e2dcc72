// Package proxy reads the requests of programs that require a proxy: SOCKS5 (RFC 1928) and HTTP's
// CONNECT (RFC 9110 9.3.6). Both contain the target, which is handled like a connection without a
// proxy.
//
// # Allowed requests
//
//	SOCKS5   no authentication; CONNECT; an IPv4 or IPv6 address, or a name
//	CONNECT  "CONNECT target HTTP/1.x",
//	         target = name ":" port / ipv4 ":" port / "[" ipv6 "]" ":" port;
//	         a Host, if there is one, for the same target; no body
//
// A name follows the grammar of package netrules: no NUL, CR, LF, space or "@", and no address in
// any notation. SOCKS5 has types of its own for addresses, so an address as its name is refused. An
// address of CONNECT is in its usual form (RFC 5952, four decimal numbers); octal, hexadecimal and
// short forms are refused. An IPv4 address in IPv6 is the IPv4 address. BIND, UDP ASSOCIATE and
// SOCKS4 are refused.
//
// Of SOCKS5 no byte behind the request is read. A request has at most 64 KiB (CONNECT) or 517 bytes
// (SOCKS5). Deadlines are the caller's.
package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"agentjail.dev/runtime/network/names/http1"
	"agentjail.dev/runtime/spec/netrules"
)

// A Target is the target that a program requests: a name or an address.
type Target struct {
	// Name is canonical; "" if Addr is set.
	Name string
	// Addr is not valid if Name is set. It may be an address that is assigned to a name.
	Addr netip.Addr
	Port uint16
}

// Replies of SOCKS5 (RFC 1928 6).
const (
	Granted            = 0
	Failed             = 1
	NotAllowed         = 2
	HostUnreachable    = 4
	ConnectionRefused  = 5
	commandUnsupported = 7
	addressUnsupported = 8
)

// SOCKS5 reads the greeting, answers it, and reads the request. The caller answers the request with
// Reply. A request that SOCKS5 refuses has been answered already.
func SOCKS5(rw io.ReadWriter) (Target, error) {
	var head [4]byte
	if err := read(rw, head[:2]); err != nil {
		return Target{}, err
	}
	if head[0] != 5 {
		return Target{}, errors.New("not SOCKS5")
	}
	methods := make([]byte, head[1])
	if err := read(rw, methods); err != nil {
		return Target{}, err
	}
	if bytes.IndexByte(methods, 0) < 0 {
		return Target{}, refuse(rw, []byte{5, 0xff}, errors.New("a SOCKS5 client that wants to authenticate"))
	}
	if _, err := rw.Write([]byte{5, 0}); err != nil {
		return Target{}, fmt.Errorf("answering a SOCKS5 greeting: %w", err)
	}
	if err := read(rw, head[:]); err != nil {
		return Target{}, err
	}
	if head[0] != 5 || head[2] != 0 {
		return Target{}, refuse(rw, Reply(Failed), errors.New("a SOCKS5 request that is not well formed"))
	}
	t, code, err := address(rw, head[3])
	if err == nil && head[1] != 1 {
		code, err = commandUnsupported, fmt.Errorf("SOCKS5 command %d", head[1])
	}
	if err == nil && t.Port == 0 {
		code, err = NotAllowed, errors.New("port 0")
	}
	if err != nil && code != Granted {
		return Target{}, refuse(rw, Reply(code), err)
	}
	return t, err
}

// address reads a request's address and port. code is 0 if no answer can be sent.
func address(r io.Reader, kind byte) (t Target, code byte, err error) {
	n := map[byte]int{1: 4, 4: 16}[kind]
	if kind == 3 {
		var length [1]byte
		if err := read(r, length[:]); err != nil {
			return t, 0, err
		}
		n = int(length[0])
	}
	if n == 0 && kind != 3 {
		return t, addressUnsupported, fmt.Errorf("SOCKS5 address type %d", kind)
	}
	b := make([]byte, n+2)
	if err := read(r, b); err != nil {
		return t, 0, err
	}
	t.Port = uint16(b[n])<<8 | uint16(b[n+1])
	if kind == 3 {
		if t.Name, err = netrules.Canonical(string(b[:n])); err != nil {
			return t, NotAllowed, err
		}
		return t, 0, nil
	}
	addr, _ := netip.AddrFromSlice(b[:n])
	t.Addr = addr.Unmap()
	return t, 0, nil
}

func read(r io.Reader, b []byte) error {
	if _, err := io.ReadFull(r, b); err != nil {
		return fmt.Errorf("reading a SOCKS5 request: %w", err)
	}
	return nil
}

// refuse sends the answer and returns the reason, even if the answer cannot be sent.
func refuse(w io.Writer, answer []byte, reason error) error {
	_, _ = w.Write(answer)
	return reason
}

// Reply returns the answer to a SOCKS5 request. Its address is all zeros, since no program needs
// it.
func Reply(code byte) []byte { return []byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0} }

// Connect reads a CONNECT request. The caller answers with Established or http1.Refusal, also for
// an error that is an *http1.Error. The client's next bytes are in r.
func Connect(r *bufio.Reader) (Target, error) {
	h, err := http1.ReadHead(r)
	if err != nil {
		return Target{}, err
	}
	if h.Method != "CONNECT" {
		return Target{}, &http1.Error{Status: 403, Reason: "a request to a proxy other than CONNECT (remedy: without a proxy, names are reached directly)"}
	}
	t, err := authority(h.Target)
	if err != nil {
		return Target{}, &http1.Error{Status: 400, Reason: "CONNECT: " + err.Error()}
	}
	host, found, err := h.Get("host")
	if err != nil {
		return Target{}, err
	}
	if found && !same(host, t) {
		return Target{}, &http1.Error{Status: 400, Reason: "CONNECT with a Host for another"}
	}
	for _, name := range []string{"content-length", "transfer-encoding", "upgrade"} {
		if v, found, err := h.Get(name); err != nil || found && v != "0" {
			return Target{}, &http1.Error{Status: 400, Reason: "CONNECT with " + name}
		}
	}
	return t, nil
}

// same reports whether a Host is for a target, with or without its port.
func same(host string, t Target) bool {
	got, err := authority(host)
	if err != nil {
		got, err = authority(fmt.Sprintf("%s:%d", host, t.Port))
	}
	return err == nil && got == t
}

// authority parses host and port of a target.
func authority(text string) (Target, error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return Target{}, errors.New("a target without a port")
	}
	host := text[:i]
	port, err := netrules.ParsePort(text[i+1:])
	if err != nil {
		return Target{}, err
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !ok || err != nil || !addr.Is6() || addr.Zone() != "" {
			return Target{}, errors.New("no IPv6 address in the brackets")
		}
		return Target{Addr: addr.Unmap(), Port: port}, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is4() {
		return Target{Addr: addr, Port: port}, nil
	}
	name, err := netrules.Canonical(host)
	return Target{Name: name, Port: port}, err
}

// Established returns the answer to a CONNECT request that is allowed.
func Established() []byte { return []byte("HTTP/1.1 200 Connection established\r\n\r\n") }
