package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of a head.
const (
	maxHead    = 64 << 10 // bytes, with the trailers of a body
	maxFields  = 128
	maxMethod  = 32
	bufferSize = 4 << 10
)

// An Error is the refusal of a request, which is not sent on.
type Error struct {
	// Status is the status of Refusal: 400 for a malformed request, 403 for one that is not
	// allowed.
	Status int
	// Reason is one printable line.
	Reason string
}

// Error returns the reason.
func (e *Error) Error() string { return e.Reason }

func malformed(format string, args ...any) error { return &Error{400, fmt.Sprintf(format, args...)} }

func denied(format string, args ...any) error { return &Error{403, fmt.Sprintf(format, args...)} }

// A Field is one line of a head.
type Field struct {
	// Name is the field's name in lower case.
	Name string
	// Value is the field's value without the white space around it.
	Value string
}

// A Head is a request's first line and fields, as they came.
type Head struct {
	Method, Target string
	// Minor is the x of HTTP/1.x.
	Minor  int
	Fields []Field
}

// Get returns the value of a field. It refuses a field that is there twice.
func (h *Head) Get(name string) (value string, found bool, err error) {
	for _, f := range h.Fields {
		if f.Name == name {
			if found {
				return "", false, malformed("field %s twice", name)
			}
			value, found = f.Value, true
		}
	}
	return value, found, nil
}

// ReadHead reads the head of a request. It returns io.EOF if the client has closed before it, and
// an *Error for a malformed head.
func ReadHead(r *bufio.Reader) (*Head, error) {
	budget := maxHead
	text, err := line(r, &budget)
	if err == nil && text == "" { // RFC 9112 2.2: after a body some clients send an empty line
		text, err = line(r, &budget)
	}
	if err != nil {
		return nil, err
	}
	h := &Head{}
	if err := h.first(text); err != nil {
		return nil, err
	}
	h.Fields, err = fields(r, &budget)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return h, err
}

// first parses the request line (RFC 9112 3): single spaces, HTTP/1.0 or HTTP/1.1.
func (h *Head) first(text string) error {
	method, rest, _ := strings.Cut(text, " ")
	target, version, ok := strings.Cut(rest, " ")
	if !ok {
		return malformed("not an HTTP request")
	}
	switch version {
	case "HTTP/1.1":
		h.Minor = 1
	case "HTTP/1.0":
	default:
		return malformed("not HTTP/1.1 or HTTP/1.0")
	}
	h.Method, h.Target = method, target
	return h.line()
}

// line judges the form of the request line's parts.
func (h *Head) line() error {
	if !token(h.Method) || len(h.Method) > maxMethod || h.Target == "" {
		return malformed("not an HTTP request")
	}
	for i := 0; i < len(h.Target); i++ {
		if h.Target[i] <= ' ' || h.Target[i] == 0x7f {
			return malformed("byte %#02x in a request's target", h.Target[i])
		}
	}
	return nil
}

// wellFormed checks the form of a head that was not read by ReadHead.
func (h *Head) wellFormed() error {
	if err := h.line(); err != nil {
		return err
	}
	if len(h.Fields) > maxFields {
		return malformed("more than %d fields", maxFields)
	}
	for _, f := range h.Fields {
		if err := f.wellFormed(); err != nil {
			return err
		}
	}
	return nil
}

// wellFormed judges the form of a field, whose name is in lower case.
func (f Field) wellFormed() error {
	if !token(f.Name) { // a continued line (obs-fold) begins with white space, which is no token
		return malformed("a field that is not well formed")
	}
	for i := 0; i < len(f.Value); i++ {
		if f.Value[i] < ' ' && f.Value[i] != '\t' || f.Value[i] == 0x7f {
			return malformed("byte %#02x in field %s", f.Value[i], f.Name)
		}
	}
	switch strings.ReplaceAll(f.Name, "_", "-") {
	case "host", "content-length", "transfer-encoding", "connection":
		if strings.Contains(f.Name, "_") { // the same to a server that makes variables of fields (RFC 3875 4.1.18)
			return malformed("field %s", f.Name)
		}
	}
	return nil
}

// fields reads lines up to the empty one.
func fields(r *bufio.Reader, budget *int) ([]Field, error) {
	var out []Field
	for {
		text, err := line(r, budget)
		if err != nil {
			return nil, err
		}
		if text == "" {
			return out, nil
		}
		if len(out) == maxFields {
			return nil, malformed("more than %d fields", maxFields)
		}
		name, value, ok := strings.Cut(text, ":")
		f := Field{strings.ToLower(name), strings.Trim(value, " \t")}
		if !ok {
			return nil, malformed("a field that is not well formed")
		}
		if err := f.wellFormed(); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
}

// line reads one line that ends in CRLF and has no other CR, LF or NUL. It returns io.EOF only if
// nothing was read.
func line(r *bufio.Reader, budget *int) (string, error) {
	var out []byte
	for {
		part, err := r.ReadSlice('\n')
		if *budget -= len(part); *budget < 0 {
			return "", malformed("a head of more than %d bytes", maxHead)
		}
		out = append(out, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err == io.EOF && len(out) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
	}
	text, ok := strings.CutSuffix(string(out), "\r\n")
	if !ok {
		return "", malformed("a line that does not end in CRLF")
	}
	if strings.ContainsAny(text, "\r\x00") {
		return "", malformed("CR or NUL in a line")
	}
	return text, nil
}

// token reports whether a text is a token (RFC 9110 5.6.2).
func token(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if ('a' > c || c > 'z') && ('A' > c || c > 'Z') && ('0' > c || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
