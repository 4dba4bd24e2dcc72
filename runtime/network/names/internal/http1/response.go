package http1

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Response is the head of a server's response to a request that was judged.
type Response struct {
	Code   int
	Reason string
	Fields []Field
	// Last reports that the server ends the connection after the response.
	Last bool

	length  int64 // of the body; -1 is up to the end of the connection
	chunked bool
	none    bool // there is no body, regardless of the fields
}

// ReadResponse reads the head of a response to a request of that method. The head must have the
// same form as a request's.
func ReadResponse(r *bufio.Reader, method string) (*Response, error) {
	budget := maxHead
	text, err := line(r, &budget)
	if err != nil {
		return nil, unreadable(err)
	}
	p := &Response{}
	if p.Code, err = status(text + " "); err != nil {
		return nil, err
	}
	if len(text) > 13 {
		p.Reason = strings.Map(printable, text[13:])
	}
	h := &Head{Minor: int(text[7] - '0')}
	if h.Fields, err = fields(r, &budget); err != nil {
		return nil, unreadable(err)
	}
	p.none = method == "HEAD" || p.Code < 200 || p.Code == 204 || p.Code == 304
	if p.length, p.chunked, err = h.framing(); err != nil {
		return nil, unreadable(err)
	}
	p.Last = h.Minor == 0 || p.length < 0 && !p.chunked && !p.none
	for _, f := range h.Fields {
		switch f.Name {
		case "connection":
			p.Last = p.Last || strings.Contains(strings.ToLower(f.Value), "close")
		case "transfer-encoding", "keep-alive", "te", "trailer", "proxy-connection", "proxy-authenticate":
		case "content-length":
			if p.none {
				p.Fields = append(p.Fields, f)
			}
		default:
			p.Fields = append(p.Fields, f)
		}
	}
	return p, nil
}

// unreadable hides an Error, which is reserved for requests.
func unreadable(err error) error { return fmt.Errorf("a response that cannot be read: %v", err) }

// Strip drops the fields, and the reason phrase, for which found returns true. It returns their
// number.
func (p *Response) Strip(found func(string) bool) int {
	n := len(p.Fields)
	p.Fields = slices.DeleteFunc(p.Fields, func(f Field) bool { return found(f.Name) || found(f.Value) })
	n -= len(p.Fields)
	if found(p.Reason) {
		p.Reason = ""
		n++
	}
	return n
}

// Switched reports whether the connection changes to another protocol after the response.
func (p *Response) Switched() bool { return p.Code == 101 }

// Final reports whether the response is the last one to the request.
func (p *Response) Final() bool { return p.Code >= 200 || p.Switched() }

// Forward writes the response's head anew, and then its body as it arrives from the server.
func (p *Response) Forward(w io.Writer, r *bufio.Reader) error {
	var b []byte
	b = fmt.Appendf(b, "HTTP/1.1 %d %s\r\n", p.Code, p.Reason)
	for _, f := range p.Fields {
		b = fmt.Appendf(b, "%s: %s\r\n", f.Name, f.Value)
	}
	switch {
	case p.Switched():
		b = append(b, "connection: Upgrade\r\n"...)
	case p.chunked && !p.none:
		b = append(b, "transfer-encoding: chunked\r\n"...)
	case p.length >= 0 && !p.none:
		b = fmt.Appendf(b, "content-length: %d\r\n", p.length)
	}
	if p.Last && p.Final() {
		b = append(b, "connection: close\r\n"...)
	}
	m := &merger{w: w}
	if _, err := m.Write(append(b, "\r\n"...)); err != nil {
		return fmt.Errorf("sending a response's head: %w", err)
	}
	body := &Reader{r: r}
	var err error
	switch {
	case p.none:
	case p.chunked:
		err = body.chunks(m)
	case p.length >= 0:
		err = body.copy(m, p.length)
	default:
		if err = m.flush(); err == nil {
			_, err = io.Copy(w, r)
		}
	}
	if ferr := m.flush(); err == nil {
		err = ferr
	}
	if err != nil {
		return unreadable(err)
	}
	return nil
}
