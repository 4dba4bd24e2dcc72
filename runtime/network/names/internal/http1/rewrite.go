package http1

import (
	"io"
	"slices"
	"strings"
)

// Readdress sets the request's host.
func (q *Request) Readdress(host string) { q.host = host }

// Find reports whether a text occurs in a request's target or in any field except one, whose name
// is in lower case.
func (q *Request) Find(text, but string) bool {
	return strings.Contains(q.Target, text) || slices.ContainsFunc(q.fields, func(f Field) bool {
		return f.Name != but && strings.Contains(f.Value, text) || strings.Contains(f.Name, strings.ToLower(text))
	})
}

// Set sets a field. It replaces all fields that a server may confuse with it (RFC 3875 4.1.18). The
// name is in lower case.
func (q *Request) Set(name, value string) {
	q.fields = slices.DeleteFunc(q.fields, func(f Field) bool { return strings.ReplaceAll(f.Name, "_", "-") == name })
	q.fields = append(q.fields, Field{name, value})
}

// Rest copies all bytes after the last request, which belong to another protocol.
func (r *Reader) Rest(w io.Writer) error {
	_, err := r.r.WriteTo(w)
	return err
}

// Last reports whether the client wants the connection to end after the request.
func (q *Request) Last() bool { return q.close || q.minor == 0 }

// Fields returns the fields for the server, without Host and without the body's framing.
func (q *Request) Fields() []Field { return slices.Clone(q.fields) }

// Host returns the host for the server.
func (q *Request) Host() string { return q.host }
