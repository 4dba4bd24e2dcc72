package http1

import (
	"bufio"
	"strings"
	"testing"
)

// TestResponse: responses are written anew by their framing, and what cannot be read is not passed on.
func TestResponse(t *testing.T) {
	for _, c := range []struct{ what, method, in, want, rest string }{
		{"a length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nabHTTP", "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 2\r\n\r\nab", "HTTP"},
		{"chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: secret\r\n\r\nHTTP", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "HTTP"},
		{"up to the end", "GET", "HTTP/1.1 200 OK\r\n\r\nab", "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nab", ""},
		{"an old server", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nab", ""},
		{"no body to HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nHTTP", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", "HTTP"},
		{"no content", "GET", "HTTP/1.1 204 No Content\r\n\r\nHTTP", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP"},
		{"not final", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP"},
		{"another protocol", "GET", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81", "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n", "\x81"},
		{"no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", "HTTP/1.1 200 \r\ncontent-length: 0\r\nconnection: close\r\n\r\n", ""},
		{"fields with the secret", "GET", "HTTP/1.1 200 a secret\r\nX: y\r\nX-Echo: the secret=\r\nX-secret: 1\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 \r\nx: y\r\ncontent-length: 0\r\n\r\n", ""},

		{"two framings", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nab", "", ""},
		{"two lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", "", ""},
		{"a length below nothing", "GET", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nab", "", ""},
		{"a bare line feed", "GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nab", "", ""},
		{"a continued field", "GET", "HTTP/1.1 200 OK\r\nX: a\r\n secret\r\n\r\n", "", ""},
		{"not HTTP", "GET", "SSH-2.0-x\r\n\r\n", "", ""},
		{"a head without end", "GET", "HTTP/1.1 200 OK\r\nX: y\r\n", "", ""},
		{"a head too large", "GET", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", maxHead) + "\r\n\r\n", "", ""},
	} {
		r := bufio.NewReader(strings.NewReader(c.in))
		var out strings.Builder
		p, err := ReadResponse(r, c.method)
		if err == nil {
			p.Strip(func(s string) bool { return strings.Contains(s, "secret") })
			err = p.Forward(&out, r)
		}
		rest, _ := r.Peek(r.Buffered())
		if (err == nil) != (c.want != "") || out.String() != c.want || c.want != "" && string(rest) != c.rest {
			t.Errorf("%s: %q, %q, %v", c.what, out.String(), rest, err)
		}
	}
}

// TestRewrite: a field that is set is the only one of its name to any server, and a text is found wherever it stands.
func TestRewrite(t *testing.T) {
	r := NewReader(strings.NewReader("GET /p?q HTTP/1.1\r\nHost: a.example\r\nAuthorization: one\r\nauthorization: two\r\nX_Y: z\r\nX-T: w\r\n\r\n"), "a.example", 80)
	q, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"p?q": true, "two": false, "z": true, "x-t": true, "nowhere": false} {
		if got := q.Find(text, "authorization"); got != want {
			t.Errorf("%q is found: %v", text, got)
		}
	}
	q.Readdress("b.example")
	q.Set("authorization", "Bearer three")
	q.Set("x-y", "four")
	const want = "GET /p?q HTTP/1.1\r\nHost: b.example\r\nx-t: w\r\nauthorization: Bearer three\r\nx-y: four\r\n\r\n"
	if got := string(q.head()); got != want {
		t.Errorf("%q", got)
	}
}

// FuzzResponse: a response that is passed on is the one that was read.
func FuzzResponse(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab")
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		var once, twice strings.Builder
		r := bufio.NewReader(strings.NewReader(in))
		p, err := ReadResponse(r, "GET")
		if err != nil || p.Forward(&once, r) != nil {
			return
		}
		r = bufio.NewReader(strings.NewReader(once.String()))
		p, err = ReadResponse(r, "GET")
		if err == nil {
			err = p.Forward(&twice, r)
		}
		if err != nil || once.String() != twice.String() || r.Buffered() > 0 {
			t.Errorf("%q is %q, and again %q: %v", in, once.String(), twice.String(), err)
		}
	})
}
