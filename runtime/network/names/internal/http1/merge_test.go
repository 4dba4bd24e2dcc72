package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// writes counts what is written, and how often.
type writes struct {
	bytes.Buffer
	n int
}

func (w *writes) Write(b []byte) (int, error) {
	w.n++
	return w.Buffer.Write(b)
}

// TestChunks: how small the parts of what comes together are does not report how many writes it takes: a body's chunks, requests one after the
// other, and a server's answer.
func TestChunks(t *testing.T) {
	const parts = 20000
	const head = "Host: a.example\r\ntransfer-encoding: chunked\r\n\r\n"
	chunks := strings.Repeat("1\r\nx\r\n", parts) + "0\r\n\r\n"
	requests := func(in string) func(io.Writer) error {
		return func(w io.Writer) error { return Copy(w, strings.NewReader(in), "a.example", 80, anyRequest, nil) }
	}
	for _, c := range []struct {
		what, want string
		copy       func(io.Writer) error
	}{
		{"a body's chunks", "POST / HTTP/1.1\r\n" + head + chunks, requests("POST / HTTP/1.1\r\n" + head + chunks)},
		{"requests", strings.Repeat("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", parts), requests(strings.Repeat("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", parts))},
		{
			"requests without a chunk", strings.Repeat("GET / HTTP/1.1\r\n"+head+"0\r\n\r\n", parts),
			requests(strings.Repeat("GET / HTTP/1.1\r\n"+head+"0\r\n\r\n", parts)),
		},
		{"a credential's request", "POST / HTTP/1.1\r\n" + head + chunks, func(w io.Writer) error {
			r := NewReader(strings.NewReader("POST / HTTP/1.1\r\n"+head+chunks), "a.example", 80)
			q, err := r.Next()
			if err == nil {
				err = r.Forward(w, q)
			}
			return err
		}},
		{"an answer's chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks, func(w io.Writer) error {
			r := bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks))
			p, err := ReadResponse(r, "GET")
			if err == nil {
				err = p.Forward(w, r)
			}
			return err
		}},
	} {
		w := &writes{}
		if err := c.copy(w); err != nil || w.String() != c.want {
			t.Errorf("%s: %v, %d bytes, not %d", c.what, err, w.Len(), len(c.want))
			continue
		}
		if each := w.Len() / w.n; each < bufferSize/2 {
			t.Errorf("%s: %d writes, of %d bytes each", c.what, w.n, each)
		}
	}
}

// TestPrompt: what has come is sent on before more is waited for, wherever it is cut.
func TestPrompt(t *testing.T) {
	const request = "POST / HTTP/1.1\r\nHost: a.example\r\ntransfer-encoding: chunked\r\n\r\n"
	const answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		what, head string
		copy       func(io.Writer, io.Reader) error
	}{
		{"a request", request, func(w io.Writer, r io.Reader) error { return Copy(w, r, "a.example", 80, anyRequest, nil) }},
		{"an answer", answer, func(w io.Writer, from io.Reader) error {
			r := bufio.NewReader(from)
			p, err := ReadResponse(r, "GET")
			if err == nil {
				err = p.Forward(w, r)
			}
			return err
		}},
	} {
		in, client := io.Pipe()
		server, out := io.Pipe()
		done := make(chan error, 1)
		go func() {
			err := c.copy(out, in)
			out.CloseWithError(errors.Join(err, io.EOF))
			done <- err
		}()
		// Each part is sent only once the one before has arrived.
		for _, part := range []struct{ send, arrives string }{
			{c.head, c.head}, {"3\r\nabc\r\n", "3\r\nabc\r\n"}, {"5\r\nabc", "5\r\nabc"}, {"de\r\n1\r\n", "de\r\n1\r\n"}, {"x\r", "x"}, {"\n2", "\r\n"}, {"\r\nab\r\n0\r\n\r\n", "2\r\nab\r\n0\r\n\r\n"},
		} {
			if _, err := io.WriteString(client, part.send); err != nil {
				t.Fatalf("%s: %q: %v", c.what, part.send, err)
			}
			got := make([]byte, len(part.arrives))
			if _, err := io.ReadFull(server, got); err != nil || string(got) != part.arrives {
				t.Fatalf("%s: %q arrives after %q, not %q: %v", c.what, got, part.send, part.arrives, err)
			}
		}
		client.Close()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestMergedError: a server that is gone is reported, also where what it does not get was kept.
func TestMergedError(t *testing.T) {
	gone := errors.New("gone")
	in, out := io.Pipe()
	in.CloseWithError(gone)
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\na",
		"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nwrong",
		"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", 2000),
	} {
		if err := Copy(out, strings.NewReader(text), "a.example", 80, anyRequest, nil); !errors.Is(err, gone) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}
