// Package http1 judges every request of a plain HTTP/1 connection: the first request does not
// determine the later ones.
//
// # Allowed requests (RFC 9110, RFC 9112)
//
//	target     origin form; absolute form of http for the connection's name; "*" of OPTIONS;
//	           no CONNECT, no TRACE
//	host       exactly one, the connection's name, and its port if it is not 80;
//	           an absolute target's authority likewise
//	lines      CRLF only; no NUL, no bare CR or LF, no continued line, no space before a colon
//	body       none, one Content-Length of digits, or "Transfer-Encoding: chunked" in HTTP/1.1;
//	           never both, none twice
//	chunks     a size of at most 12 hexadecimal digits without extension;
//	           trailers are read and dropped
//	upgrade    websocket, in the first request of a connection; otherwise the request is
//	           sent on without it (RFC 9110 7.8)
//
// A head is written anew from its judged parts, and a body by its framing, so that the server reads
// exactly the judged requests. Fields of the connection alone (Connection, Keep-Alive, TE, Trailer,
// Proxy-*, RFC 9110 7.6.1) are written anew or dropped; other fields that "Connection" names are
// kept, so that a jail cannot have Host removed on the way.
//
// Limits: a head of 64 KiB and 128 fields. Memory of a connection is 4 KiB, as much while a body
// comes, and a head while it is judged. Deadlines are the caller's.
package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/spec/netrules"
)

// A Request is a judged request that may be sent on.
type Request struct {
	Method string
	// Target is in origin form, or "*".
	Target string
	// Upgrade reports that the request requests another protocol. If the server answers 101, all
	// later bytes belong to that protocol.
	Upgrade bool

	minor   int
	host    string
	fields  []Field
	close   bool
	length  int64
	chunked bool
}

// A Reader reads the requests of a client to one name and port.
type Reader struct {
	r    *bufio.Reader
	name string
	port uint16
	n    int // requests read
	// usual is the default port of a Host without a port.
	usual uint16
}

// NewReader makes a Reader. name is canonical, or an address if the rule is for an address.
func NewReader(client io.Reader, name string, port uint16) *Reader {
	return &Reader{r: bufio.NewReaderSize(client, bufferSize), name: name, port: port, usual: 80}
}

// OverTLS changes the default port to that of https.
func (r *Reader) OverTLS() { r.usual = 443 }

// Next reads and judges the head of the next request; the one before must have been forwarded. It
// returns io.EOF if the client has closed between requests, and an *Error for a request that must
// not be sent on.
func (r *Reader) Next() (*Request, error) {
	h, err := ReadHead(r.r)
	if err != nil {
		return nil, err
	}
	r.n++
	return r.judge(h)
}

// Judge judges the head of a request that is not HTTP/1 by the same rules. The request's host is
// among the fields, unchanged.
func Judge(h *Head, name string, port, usual uint16) (*Request, error) {
	if err := h.wellFormed(); err != nil {
		return nil, err
	}
	return (&Reader{name: name, port: port, usual: usual}).judge(h)
}

func (r *Reader) judge(h *Head) (*Request, error) {
	q := &Request{Method: h.Method, Target: h.Target, minor: h.Minor}
	if err := r.target(q); err != nil {
		return nil, err
	}
	host, found, err := h.Get("host")
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, denied("a request without Host")
	}
	if q.host, err = r.authority(host); err != nil {
		return nil, err
	}
	if q.length, q.chunked, err = h.framing(); err != nil {
		return nil, err
	}
	q.length = max(0, q.length)
	return q, r.connection(q, h)
}

// target judges the request's target and converts it to origin form.
func (r *Reader) target(q *Request) error {
	switch q.Method {
	case "CONNECT", "TRACE", "TRACK":
		return denied("method %s", q.Method)
	}
	switch {
	case q.Target[0] == '/', q.Target == "*" && q.Method == "OPTIONS":
		return nil
	case len(q.Target) > 7 && strings.EqualFold(q.Target[:7], "http://"):
	default:
		return malformed("a request's target that is neither a path nor an http URL")
	}
	rest := q.Target[7:]
	end := strings.IndexAny(rest, "/?#\\")
	if end < 0 {
		end = len(rest)
	}
	if _, err := r.authority(rest[:end]); err != nil {
		return err
	}
	q.Target = rest[end:]
	switch {
	case q.Target == "":
		q.Target = "/"
	case q.Target[0] == '?':
		q.Target = "/" + q.Target
	case q.Target[0] != '/':
		return malformed("a request's target that is no http URL")
	}
	return nil
}

// authority judges a Host and returns the form that is sent on.
func (r *Reader) authority(text string) (string, error) {
	host, port, hasPort := text, "", false
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		host, port, hasPort = text[:i], text[i+1:], true
	}
	number := r.usual
	if hasPort {
		var err error
		if number, err = netrules.ParsePort(port); err != nil {
			return "", malformed("a Host whose port is not a number")
		}
	}
	own := r.name
	if addr, err := netip.ParseAddr(r.name); err == nil && addr.Is6() {
		own = "[" + r.name + "]"
	}
	if host != own {
		c, err := netrules.Canonical(host)
		if err != nil {
			return "", malformed("a Host that is not the name %s: %v", r.name, err)
		}
		if c != own {
			return "", denied("a request for %s in a connection to %s", c, r.name)
		}
	}
	if number != r.port {
		return "", denied("a request for port %d in a connection to port %d", number, r.port)
	}
	if r.port != r.usual {
		own += ":" + strconv.Itoa(int(r.port))
	}
	return own, nil
}

// framing returns how the body ends (RFC 9112 6.3): after length bytes, or -1 if no field limits
// it.
func (h *Head) framing() (length int64, chunked bool, err error) {
	te, chunked, err := h.Get("transfer-encoding")
	if err != nil {
		return 0, false, err
	}
	cl, limited, err := h.Get("content-length")
	switch {
	case err != nil:
		return 0, false, err
	case chunked && limited:
		return 0, false, malformed("Content-Length together with Transfer-Encoding")
	case chunked && (!strings.EqualFold(te, "chunked") || h.Minor == 0):
		return 0, false, malformed("a Transfer-Encoding other than chunked of HTTP/1.1")
	case !limited:
		return -1, chunked, nil
	case cl == "" || len(cl) > 18 || strings.Trim(cl, "0123456789") != "":
		return 0, false, malformed("a Content-Length that is no number")
	}
	length, err = strconv.ParseInt(cl, 10, 64)
	return length, false, err
}

// connection keeps the fields for the server, and the known fields for the connection.
func (r *Reader) connection(q *Request, h *Head) error {
	var upgrade bool
	protocol, _, err := h.Get("upgrade")
	if err != nil {
		return err
	}
	for _, f := range h.Fields {
		switch f.Name {
		case "connection":
			for word := range strings.SplitSeq(strings.ToLower(f.Value), ",") {
				switch strings.Trim(word, " \t") {
				case "close":
					q.close = true
				case "keep-alive":
					if q.minor == 0 {
						q.fields = append(q.fields, Field{"connection", "keep-alive"})
					}
				case "upgrade":
					upgrade = true
				}
			}
		case "host", "content-length", "transfer-encoding", "keep-alive", "te", "trailer", "upgrade", "http2-settings",
			"proxy-connection", "proxy-authorization", "proxy-authenticate":
		default:
			q.fields = append(q.fields, f)
		}
	}
	// h2c is left out: its requests would not be judged.
	q.Upgrade = upgrade && strings.EqualFold(protocol, "websocket") && r.n == 1 && q.minor == 1 && q.length == 0 && !q.chunked
	return nil
}

// Forward writes a request's head, and then its body as it arrives from the client. The server gets
// the head even if the body is refused later.
func (r *Reader) Forward(w io.Writer, q *Request) error {
	if _, err := w.Write(q.head()); err != nil {
		return fmt.Errorf("sending a request's head: %w", err)
	}
	m := &merger{w: w}
	err := r.body(m, q)
	if ferr := m.flush(); err == nil && ferr != nil {
		err = fmt.Errorf("sending a request's body: %w", ferr)
	}
	return err
}

// body writes a request's body.
func (r *Reader) body(m *merger, q *Request) error {
	if q.chunked {
		return r.chunks(m)
	}
	return r.copy(m, q.length)
}

// head returns the head for the server.
func (q *Request) head() []byte {
	var b []byte
	b = fmt.Appendf(b, "%s %s HTTP/1.%d\r\nHost: %s\r\n", q.Method, q.Target, q.minor, q.host)
	for _, f := range q.fields {
		b = fmt.Appendf(b, "%s: %s\r\n", f.Name, f.Value)
	}
	switch {
	case q.chunked:
		b = append(b, "transfer-encoding: chunked\r\n"...)
	case q.length > 0 || slices.Contains([]string{"POST", "PUT", "PATCH"}, q.Method):
		b = fmt.Appendf(b, "content-length: %d\r\n", q.length)
	}
	switch {
	case q.Upgrade:
		b = append(b, "connection: Upgrade\r\nupgrade: websocket\r\n"...)
	case q.close:
		b = append(b, "connection: close\r\n"...)
	}
	return append(b, "\r\n"...)
}

// copy copies n bytes of a body, by the reader's own buffer: a connection has no other while it
// waits.
func (r *Reader) copy(w *merger, n int64) error {
	for n > 0 {
		if err := w.count(r.r, 1); err != nil {
			return fmt.Errorf("copying a request's body: %w", err)
		}
		if _, err := r.r.Peek(1); err != nil {
			return inBody(err)
		}
		b, _ := r.r.Peek(int(min(n, int64(r.r.Buffered()))))
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("copying a request's body: %w", err)
		}
		_, _ = r.r.Discard(len(b))
		n -= int64(len(b))
	}
	return nil
}

// chunks copies a chunked body (RFC 9112 7.1), each chunk's head written anew.
func (r *Reader) chunks(w *merger) error {
	for {
		n, err := r.chunk(w)
		if err != nil {
			return err
		}
		if n == 0 {
			return r.trailers(w)
		}
		if _, err := fmt.Fprintf(w, "%x\r\n", n); err != nil {
			return fmt.Errorf("copying a request's body: %w", err)
		}
		if err := r.copy(w, n); err != nil {
			return err
		}
		if err := w.count(r.r, 2); err != nil {
			return fmt.Errorf("copying a request's body: %w", err)
		}
		var end [2]byte
		if _, err := io.ReadFull(r.r, end[:]); err != nil {
			return inBody(err)
		}
		if string(end[:]) != "\r\n" {
			return malformed("a chunk that is longer than its size")
		}
		if _, err := w.Write(end[:]); err != nil {
			return fmt.Errorf("copying a request's body: %w", err)
		}
	}
}

// chunk reads a chunk's size.
func (r *Reader) chunk(w *merger) (int64, error) {
	if err := w.until(r.r, "\n"); err != nil {
		return 0, fmt.Errorf("copying a request's body: %w", err)
	}
	budget := 64 // the line of a size
	text, err := line(r.r, &budget)
	if err != nil {
		return 0, inBody(err)
	}
	if text == "" || len(text) > 12 || strings.Trim(text, "0123456789abcdefABCDEF") != "" {
		return 0, malformed("a chunk whose size is no number")
	}
	n, err := strconv.ParseInt(text, 16, 64)
	if err != nil {
		return 0, malformed("a chunk whose size is no number")
	}
	return n, nil
}

// trailers reads the fields after a body, and ends it without any.
func (r *Reader) trailers(w *merger) error {
	if none, _ := r.r.Peek(min(2, r.r.Buffered())); string(none) != "\r\n" {
		if err := w.until(r.r, "\r\n\r\n"); err != nil {
			return fmt.Errorf("copying a request's body: %w", err)
		}
	}
	budget := maxHead
	if _, err := fields(r.r, &budget); err != nil {
		return inBody(err)
	}
	_, err := io.WriteString(w, "0\r\n\r\n")
	return err
}

// inBody wraps an error within a body.
func inBody(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading a request's body: %w", err)
}

// Status reads the heads of a server's responses up to the final one or 101, for a request with an
// upgrade. It returns the heads unchanged, to be sent to the client; they are set also with an
// error.
func Status(r *bufio.Reader) (code int, raw []byte, err error) {
	for {
		first := true
		for {
			part, err := r.ReadSlice('\n')
			raw = append(raw, part...)
			if len(raw) > maxHead {
				return 0, raw, fmt.Errorf("a response's head of more than %d bytes", maxHead)
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if err != nil {
				return 0, raw, fmt.Errorf("reading a response's head: %w", err)
			}
			if first {
				if code, err = status(string(part)); err != nil {
					return 0, raw, err
				}
				first = false
			} else if s := string(part); s == "\r\n" || s == "\n" {
				break
			}
		}
		if code == 101 || code >= 200 {
			return code, raw, nil
		}
	}
}

// status parses the code of a status line.
func status(text string) (int, error) {
	if len(text) > 12 && strings.HasPrefix(text, "HTTP/1.") && text[8] == ' ' {
		if n, err := strconv.ParseUint(text[9:12], 10, 16); err == nil && n >= 100 {
			return int(n), nil
		}
	}
	return 0, fmt.Errorf("a response that is not HTTP/1")
}

// Refusal returns the response to a refused request, which ends the connection. It is sent to the
// client after all responses to earlier requests.
func Refusal(err error) []byte {
	status := "403 Forbidden"
	if e, ok := errors.AsType[*Error](err); ok && e.Status == 400 {
		status = "400 Bad Request"
	}
	return lastResponse(status, "refused: "+strings.Map(printable, err.Error())+"\n")
}

// Unavailable returns the response if the server cannot be reached.
func Unavailable(err error) []byte {
	return lastResponse("502 Bad Gateway", fmt.Sprintf("no response of the server: %q\n", err.Error()))
}

func lastResponse(status, body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

// Copy reads requests from a client until the client closes, and sends the allowed ones to a
// server. judge is called with each request before it is sent, and may refuse it.
// After a request with an upgrade Copy calls switched, which reports whether the server answered
// 101 (Status). If so, all later bytes are copied unchanged; otherwise Copy returns as if the
// client had closed. An *Error means that a request was refused: only the part before the fault was
// sent.
func Copy(server io.Writer, client io.Reader, name string, port uint16, judge func(*Request) error, switched func() bool) error {
	r, m := NewReader(client, name, port), &merger{w: server}
	err := r.requests(m, judge, switched)
	if ferr := m.flush(); ferr != nil {
		return fmt.Errorf("sending requests: %w", ferr)
	}
	return err
}

// requests is the loop of Copy.
func (r *Reader) requests(m *merger, judge func(*Request) error, switched func() bool) error {
	for {
		if err := m.until(r.r, "\r\n\r\n"); err != nil {
			return fmt.Errorf("sending requests: %w", err)
		}
		q, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := judge(q); err != nil {
			return err
		}
		if _, err := m.Write(q.head()); err != nil {
			return fmt.Errorf("sending a request's head: %w", err)
		}
		if err := r.body(m, q); err != nil {
			return err
		}
		if !q.Upgrade {
			continue
		}
		if err := m.flush(); err != nil {
			return fmt.Errorf("sending a request's head: %w", err)
		}
		if !switched() {
			return nil
		}
		if _, err := r.r.WriteTo(m.w); err != nil { // by its own buffer too
			return fmt.Errorf("copying after an upgrade: %w", err)
		}
		return nil
	}
}
