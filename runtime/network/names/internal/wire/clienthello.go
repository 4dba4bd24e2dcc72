package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"agentjail.dev/runtime/spec/netrules"
)

const (
	// helloLimit bounds a ClientHello, in bytes including record headers. Clients with
	// post-quantum keys send about 2000.
	helloLimit = 16 << 10

	maxTLSRecord     = 1 << 14
	readStep         = 2 << 10 // bytes for which there is room at a time
	maxTLSExtensions = 64
	maxALPN          = 16
)

// errNotTLS means that the first bytes are no TLS handshake.
var errNotTLS = errors.New("not TLS")

// A Hello is a decoded ClientHello.
type Hello struct {
	// SNI is the canonical server name; "" for none.
	SNI string
	// ECH reports that there is an encrypted ClientHello, or an imitation of one (GREASE).
	ECH bool
	// ALPN are the protocols that the client offers, as arbitrary bytes.
	ALPN []string
	// Raw has all bytes that were read, to be sent on. It is set also with an error.
	Raw []byte
}

// ReadHello reads one ClientHello of TLS, the one message that has the server's name in the clear.
//
// # Syntax (RFC 8446 4.1.2, 5.1; RFC 6066 3; RFC 7301 3.1; RFC 9849 for ECH)
//
//	record      = handshake (22), version 3.x, length 1 to 16384, payload;
//	              one message may be in many records
//	ClientHello = version, random, session id, cipher suites, compression,
//	              extensions; nothing after it
//	server_name = a list of one host_name
//
// Only a message that each server interprets in the same way passes: lengths that fit exactly, no
// extension twice (two server_name: each server takes another one), one name in the list, no
// trailing dot, no address, nothing after the message in its record. TLS 1.0 to 1.3 send it; SSL
// 2's own hello is not read. After a HelloRetryRequest, the server itself checks that a second
// ClientHello has the same name (RFC 8446 4.1.2).
//
// Reading needs no more memory than helloLimit, and no byte behind the ClientHello's last record is
// taken. The deadline is the caller's. crypto/tls would read on, and take a second message in the
// record, or a name of another type beside the host name.
func ReadHello(r io.Reader) (Hello, error) {
	var raw, msg []byte
	for {
		var err error
		if raw, err = appendBytes(r, raw, 5); err != nil {
			return Hello{Raw: raw}, fmt.Errorf("reading the head of a record: %w", err)
		}
		n, err := recordLength(raw[len(raw)-5:])
		if err != nil {
			return Hello{Raw: raw}, err
		}
		if raw, err = appendBytes(r, raw, n); err != nil {
			return Hello{Raw: raw}, fmt.Errorf("reading a record: %w", err)
		}
		msg = append(msg, raw[len(raw)-n:]...)
		if msg[0] != 1 {
			return Hello{Raw: raw}, errors.New("the first TLS message is no ClientHello")
		}
		if len(msg) < 4 {
			continue
		}
		want := 4 + int(msg[1])<<16 + int(msg[2])<<8 + int(msg[3])
		switch {
		case want > helloLimit:
			return Hello{Raw: raw}, errLongHello
		case len(msg) > want:
			return Hello{Raw: raw}, errors.New("bytes after the ClientHello in its record")
		case len(msg) == want:
			h, err := parseHello(msg[4:])
			h.Raw = raw
			return h, err
		}
	}
}

var errLongHello = fmt.Errorf("a ClientHello of more than %d bytes", helloLimit)

// appendBytes appends n bytes of r. With an error it appends the bytes that were read. It allocates
// memory for received bytes only, not for a claimed length.
func appendBytes(r io.Reader, raw []byte, n int) ([]byte, error) {
	begin := len(raw)
	if begin+n > helloLimit {
		return raw, errLongHello
	}
	for len(raw) < begin+n {
		at := len(raw)
		part := min(begin+n-at, readStep)
		raw = slices.Grow(raw, part)[:at+part]
		got, err := io.ReadFull(r, raw[at:])
		if err == io.EOF && at > begin {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return raw[:at+got], err
		}
	}
	return raw, nil
}

// recordLength returns the length of a record's payload.
func recordLength(head []byte) (int, error) {
	if head[0] != 22 || head[1] != 3 {
		return 0, errNotTLS
	}
	n := int(binary.BigEndian.Uint16(head[3:]))
	if n == 0 || n > maxTLSRecord {
		return 0, fmt.Errorf("a TLS record of %d bytes", n)
	}
	return n, nil
}

// cursor is a message that is being decoded. After bad is set, all reads return empty values.
type cursor struct {
	b   []byte
	bad bool
}

func (s *cursor) take(n int) []byte {
	if n > len(s.b) {
		s.b, s.bad = nil, true
		return nil
	}
	out := s.b[:n]
	s.b = s.b[n:]
	return out
}

func (s *cursor) uint8() int {
	if b := s.take(1); b != nil {
		return int(b[0])
	}
	return 0
}

func (s *cursor) uint16() int {
	if b := s.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

var errBrokenHello = errors.New("a ClientHello that is not well formed")

// parseHello decodes the message after its type and length.
func parseHello(msg []byte) (Hello, error) {
	var h Hello
	s := &cursor{b: msg}
	version := s.uint16()
	s.take(32) // random
	session := s.take(s.uint8())
	suites := s.take(s.uint16())
	compression := s.take(s.uint8())
	if s.bad || version>>8 != 3 || len(session) > 32 || len(suites) < 2 || len(suites)%2 != 0 || len(compression) == 0 {
		return h, errBrokenHello
	}
	if len(s.b) == 0 {
		return h, nil // TLS 1.0 without extensions: no name
	}
	list := &cursor{b: s.take(s.uint16())}
	if s.bad || len(s.b) != 0 {
		return h, errBrokenHello
	}
	seen := make([]int, 0, 32)
	for len(list.b) > 0 {
		typ := list.uint16()
		body := list.take(list.uint16())
		if list.bad {
			return h, errBrokenHello
		}
		if slices.Contains(seen, typ) {
			return h, fmt.Errorf("extension %d twice in a ClientHello", typ)
		}
		if seen = append(seen, typ); len(seen) > maxTLSExtensions {
			return h, fmt.Errorf("more than %d extensions in a ClientHello", maxTLSExtensions)
		}
		if err := h.extension(typ, body); err != nil {
			return h, err
		}
	}
	return h, nil
}

// extension decodes one extension.
func (h *Hello) extension(typ int, body []byte) error {
	var err error
	switch {
	case typ == 0:
		h.SNI, err = parseServerName(body)
	case typ == 16:
		h.ALPN, err = parseALPN(body)
	case typ >= 0xfe08 && typ <= 0xfe0d, typ == 0xffce: // ECH and its drafts; ESNI, which was before it
		h.ECH = true
	}
	return err
}

// parseServerName decodes the extension server_name.
func parseServerName(body []byte) (string, error) {
	s := &cursor{b: body}
	list := &cursor{b: s.take(s.uint16())}
	typ := list.uint8()
	name := list.take(list.uint16())
	if s.bad || list.bad || len(s.b) > 0 || len(name) == 0 {
		return "", errBrokenHello
	}
	if typ != 0 || len(list.b) > 0 {
		return "", errors.New("a server_name of more than one host name")
	}
	if name[len(name)-1] == '.' {
		return "", errors.New("a server_name with a trailing dot")
	}
	c, err := netrules.Canonical(string(name))
	if err != nil {
		return "", fmt.Errorf("server_name: %w", err)
	}
	return c, nil
}

// parseALPN decodes the extension application_layer_protocol_negotiation.
func parseALPN(body []byte) ([]string, error) {
	s := &cursor{b: body}
	list := &cursor{b: s.take(s.uint16())}
	if s.bad || len(s.b) > 0 || len(list.b) == 0 {
		return nil, errBrokenHello
	}
	var out []string
	for len(list.b) > 0 {
		p := list.take(list.uint8())
		if list.bad || len(p) == 0 {
			return nil, errBrokenHello
		}
		if out = append(out, string(p)); len(out) > maxALPN {
			return nil, fmt.Errorf("more than %d protocols in a ClientHello", maxALPN)
		}
	}
	return out, nil
}

// CheckHello returns an error if this ClientHello is not allowed for a connection to a name, for
// which rule decided. A rule for an address requires no server name (RFC 6066 3: an address is
// none).
func CheckHello(h Hello, name string, rule *netrules.Rule) error {
	switch {
	case rule == nil:
		return errors.New("no rule")
	case rule.TLS == netrules.TLSAny:
		return nil
	case h.ECH && !rule.ECH:
		return errors.New("an encrypted ClientHello hides whom it is for (remedy: the entry's option ech)")
	case rule.Addr.IsValid() && h.SNI == "":
		return nil
	case h.SNI == "":
		return errors.New("the ClientHello names no server (remedy: the entry's option tls=any)")
	case h.SNI != name:
		return fmt.Errorf("the ClientHello names %s", h.SNI)
	}
	return nil
}

// AccessDenied returns a fatal alert access_denied (RFC 8446 6.2), which clients report as a denial
// instead of a broken connection.
func AccessDenied() []byte { return []byte{21, 3, 3, 0, 2, 2, 49} }
