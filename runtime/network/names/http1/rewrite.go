package http1

import (
	"io"
	"slices"
	"strings"
)

// Readdress has a request go to another host.
func (q *Request) Readdress(host string) { q.host = host }

// Find reports whether a text stands in a request's target or in a field but one, whose name is in
// lower case.
func (q *Request) Find(text, but string) bool {
	return strings.Contains(q.Target, text) || slices.ContainsFunc(q.fields, func(f Field) bool {
		return f.Name != but && strings.Contains(f.Value, text) || strings.Contains(f.Name, strings.ToLower(text))
	})
}

// Set sets a field, in the place of all that a server may take for it (RFC 3875 4.1.18). The name
// is in lower case.
func (q *Request) Set(name, value string) {
	q.fields = slices.DeleteFunc(q.fields, func(f Field) bool { return strings.ReplaceAll(f.Name, "_", "-") == name })
	q.fields = append(q.fields, Field{name, value})
}

// Rest copies all that follows the last request, which is another protocol's.
func (r *Reader) Rest(w io.Writer) error {
	_, err := r.r.WriteTo(w)
	return err
}

// Last reports that the client wants the connection to end after it.
func (q *Request) Last() bool { return q.close || q.minor == 0 }

// Fields are those that the server is sent, without Host and what reports where the body ends.
func (q *Request) Fields() []Field { return slices.Clone(q.fields) }

// Host is the one that the server is sent.
func (q *Request) Host() string { return q.host }
