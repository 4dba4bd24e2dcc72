package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"agentjail.dev/runtime/network/names/internal/http1"
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
	SOCKSGranted            = 0
	socksFailed             = 1
	SOCKSNotAllowed         = 2
	socksCommandUnsupported = 7
	socksAddressUnsupported = 8
)

// ReadSOCKS5 reads the greeting, answers it, and reads the request. The caller answers the request
// with SOCKSReply. A request that is refused here has been answered already.
func ReadSOCKS5(rw io.ReadWriter) (Target, error) {
	var head [4]byte
	if err := readSOCKS(rw, head[:2]); err != nil {
		return Target{}, err
	}
	if head[0] != 5 {
		return Target{}, errors.New("not SOCKS5")
	}
	methods := make([]byte, head[1])
	if err := readSOCKS(rw, methods); err != nil {
		return Target{}, err
	}
	if bytes.IndexByte(methods, 0) < 0 {
		return Target{}, refuseSOCKS(rw, []byte{5, 0xff}, errors.New("a SOCKS5 client that wants to authenticate"))
	}
	if _, err := rw.Write([]byte{5, 0}); err != nil {
		return Target{}, fmt.Errorf("answering a SOCKS5 greeting: %w", err)
	}
	if err := readSOCKS(rw, head[:]); err != nil {
		return Target{}, err
	}
	if head[0] != 5 || head[2] != 0 {
		return Target{}, refuseSOCKS(rw, SOCKSReply(socksFailed), errors.New("a SOCKS5 request that is not well formed"))
	}
	t, code, err := readSOCKSAddress(rw, head[3])
	if err == nil && head[1] != 1 {
		code, err = socksCommandUnsupported, fmt.Errorf("SOCKS5 command %d", head[1])
	}
	if err == nil && t.Port == 0 {
		code, err = SOCKSNotAllowed, errors.New("port 0")
	}
	if err != nil && code != SOCKSGranted {
		return Target{}, refuseSOCKS(rw, SOCKSReply(code), err)
	}
	return t, err
}

// readSOCKSAddress reads a request's address and port. code is 0 if no answer can be sent.
func readSOCKSAddress(r io.Reader, kind byte) (t Target, code byte, err error) {
	n := map[byte]int{1: 4, 4: 16}[kind]
	if kind == 3 {
		var length [1]byte
		if err := readSOCKS(r, length[:]); err != nil {
			return t, 0, err
		}
		n = int(length[0])
	}
	if n == 0 && kind != 3 {
		return t, socksAddressUnsupported, fmt.Errorf("SOCKS5 address type %d", kind)
	}
	b := make([]byte, n+2)
	if err := readSOCKS(r, b); err != nil {
		return t, 0, err
	}
	t.Port = uint16(b[n])<<8 | uint16(b[n+1])
	if kind == 3 {
		if t.Name, err = netrules.Canonical(string(b[:n])); err != nil {
			return t, SOCKSNotAllowed, err
		}
		return t, 0, nil
	}
	addr, _ := netip.AddrFromSlice(b[:n])
	t.Addr = addr.Unmap()
	return t, 0, nil
}

func readSOCKS(r io.Reader, b []byte) error {
	if _, err := io.ReadFull(r, b); err != nil {
		return fmt.Errorf("reading a SOCKS5 request: %w", err)
	}
	return nil
}

// refuseSOCKS sends the answer and returns the reason, even if the answer cannot be sent.
func refuseSOCKS(w io.Writer, answer []byte, reason error) error {
	_, _ = w.Write(answer)
	return reason
}

// SOCKSReply returns the answer to a SOCKS5 request. Its address is all zeros, since no program
// needs it.
func SOCKSReply(code byte) []byte { return []byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0} }

// ReadConnect reads a CONNECT request. The caller answers with Established or http1.Refusal, also
// for an error that is an *http1.Error. The client's next bytes are in r.
func ReadConnect(r *bufio.Reader) (Target, error) {
	h, err := http1.ReadHead(r)
	if err != nil {
		return Target{}, err
	}
	if h.Method != "CONNECT" {
		return Target{}, &http1.Error{Status: 403, Reason: "a request to a proxy other than CONNECT (remedy: without a proxy, names are reached directly)"}
	}
	t, err := parseAuthority(h.Target)
	if err != nil {
		return Target{}, &http1.Error{Status: 400, Reason: "CONNECT: " + err.Error()}
	}
	host, found, err := h.Get("host")
	if err != nil {
		return Target{}, err
	}
	if found && !sameTarget(host, t) {
		return Target{}, &http1.Error{Status: 400, Reason: "CONNECT with a Host for another"}
	}
	for _, name := range []string{"content-length", "transfer-encoding", "upgrade"} {
		if v, found, err := h.Get(name); err != nil || found && v != "0" {
			return Target{}, &http1.Error{Status: 400, Reason: "CONNECT with " + name}
		}
	}
	return t, nil
}

// sameTarget reports whether a Host is for a target, with or without its port.
func sameTarget(host string, t Target) bool {
	got, err := parseAuthority(host)
	if err != nil {
		got, err = parseAuthority(fmt.Sprintf("%s:%d", host, t.Port))
	}
	return err == nil && got == t
}

// parseAuthority parses host and port of a target.
func parseAuthority(text string) (Target, error) {
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
