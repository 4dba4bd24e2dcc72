package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// run copies what a client sends, and returns what the server gets.
func run(text string, port uint16, switched bool) (string, error) {
	var out bytes.Buffer
	err := Copy(&out, iotest.OneByteReader(strings.NewReader(text)), "a.example", port, anyRequest, func() bool { return switched })
	return out.String(), err
}

func anyRequest(*Request) error { return nil }

func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

func TestPasses(t *testing.T) {
	for _, c := range []struct{ what, in, want string }{
		{"get", "GET /x?y=http://b.example/ HTTP/1.1\nHost: a.example\nAccept: */*\n\n", "GET /x?y=http://b.example/ HTTP/1.1\nHost: a.example\naccept: */*\n\n"},
		{"capitals, dot, port", "GET / HTTP/1.1\nhOST:A.Example.:80\n\n", "GET / HTTP/1.1\nHost: a.example\n\n"},
		{"absolute", "GET HTTP://A.example/x HTTP/1.1\nHost: a.example\n\n", "GET /x HTTP/1.1\nHost: a.example\n\n"},
		{"absolute, no path", "GET http://a.example?x HTTP/1.1\nHost: a.example\n\n", "GET /?x HTTP/1.1\nHost: a.example\n\n"},
		{"absolute, nothing", "GET http://a.example:80 HTTP/1.1\nHost: a.example\n\n", "GET / HTTP/1.1\nHost: a.example\n\n"},
		{"options", "OPTIONS * HTTP/1.1\nHost: a.example\n\n", "OPTIONS * HTTP/1.1\nHost: a.example\n\n"},
		{"1.0", "GET / HTTP/1.0\nHost: a.example\nConnection: keep-alive\n\n", "GET / HTTP/1.0\nHost: a.example\nconnection: keep-alive\n\n"},
		{"UTF-8", "GET /ü HTTP/1.1\nHost: a.example\n\n", "GET /ü HTTP/1.1\nHost: a.example\n\n"},
		{"length", "POST / HTTP/1.1\nHost: a.example\nContent-Length: 3\n\nabcGET / HTTP/1.1\nHost: a.example\n\n", "POST / HTTP/1.1\nHost: a.example\ncontent-length: 3\n\nabcGET / HTTP/1.1\nHost: a.example\n\n"},
		{"an empty line after a body", "POST / HTTP/1.1\nHost: a.example\nContent-Length: 1\n\na\nGET / HTTP/1.1\nHost: a.example\n\n", "POST / HTTP/1.1\nHost: a.example\ncontent-length: 1\n\naGET / HTTP/1.1\nHost: a.example\n\n"},
		{
			"chunks", "POST / HTTP/1.1\nHost: a.example\nTransfer-Encoding: Chunked\n\n0003\nabc\nA\n0123456789\n000\nX: y\n\nGET / HTTP/1.1\nHost: a.example\n\n",
			"POST / HTTP/1.1\nHost: a.example\ntransfer-encoding: chunked\n\n3\nabc\na\n0123456789\n0\n\nGET / HTTP/1.1\nHost: a.example\n\n",
		},
		{"hop by hop", "GET / HTTP/1.1\nHost: a.example\nConnection: close, Host, X-A\nKeep-Alive: 1\nTE: trailers\nProxy-Authorization: x\nX-A: b\n\n", "GET / HTTP/1.1\nHost: a.example\nx-a: b\nconnection: close\n\n"},
		{"h2c is left out", "GET / HTTP/1.1\nHost: a.example\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABk\n\n", "GET / HTTP/1.1\nHost: a.example\n\n"},
		{"a late upgrade is left out", "GET / HTTP/1.1\nHost: a.example\n\nGET /w HTTP/1.1\nHost: a.example\nConnection: Upgrade\nUpgrade: websocket\n\n", "GET / HTTP/1.1\nHost: a.example\n\nGET /w HTTP/1.1\nHost: a.example\n\n"},
		{"nothing", "", ""},
	} {
		got, err := run(crlf(c.in), 80, false)
		if err != nil || got != crlf(c.want) {
			t.Errorf("%s: %q, %v", c.what, got, err)
		}
	}
	if got, err := run(crlf("GET http://a.example:8080/ HTTP/1.1\nHost: a.example:8080\n\n"), 8080, false); err != nil || got != crlf("GET / HTTP/1.1\nHost: a.example:8080\n\n") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestUpgrade(t *testing.T) {
	in := crlf("GET /w HTTP/1.1\nHost: a.example\nConnection: keep-alive, Upgrade\nUpgrade: WebSocket\n\n") + "raw\x00GET / HTTP/1.1\nHost: b.example\n\n"
	head := crlf("GET /w HTTP/1.1\nHost: a.example\nconnection: Upgrade\nupgrade: websocket\n\n")
	if got, err := run(in, 80, true); err != nil || got != head+"raw\x00GET / HTTP/1.1\nHost: b.example\n\n" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := run(in, 80, false); err != nil || got != head {
		t.Errorf("not switched: %q, %v", got, err)
	}
}

func TestRefused(t *testing.T) {
	get := func(fields string) string { return crlf("GET / HTTP/1.1\nHost: a.example\n" + fields + "\n\n") }
	post := func(fields, body string) string {
		return crlf("POST / HTTP/1.1\nHost: a.example\n"+fields+"\n\n") + body
	}
	target := func(s string) string { return crlf("GET " + s + " HTTP/1.1\nHost: a.example\n\n") }
	host := func(s string) string { return "GET / HTTP/1.1\r\nHost: " + s + "\r\n\r\n" }
	chunked := "Transfer-Encoding: chunked"
	for what, in := range map[string]string{
		"another Host":                host("b.example"),
		"below":                       host("x.a.example"),
		"another port":                host("a.example:8080"),
		"port 0080":                   host("a.example:0080"),
		"no port":                     host("a.example:"),
		"NUL":                         host("a.example\x00.b.example"),
		"userinfo":                    host("a.example@b.example"),
		"path":                        host("a.example/b"),
		"two names":                   host("a.example, b.example"),
		"space":                       host("a.example b.example"),
		"an address":                  host("127.64.0.1"),
		"metadata":                    host("169.254.169.254"),
		"an address in hexadecimal":   host("0xa9fea9fe"),
		"empty":                       host(""),
		"no Host":                     "GET / HTTP/1.1\r\n\r\n",
		"no Host, 1.0":                "GET / HTTP/1.0\r\n\r\n",
		"HTTP/0.9":                    "GET /\r\n\r\n",
		"two Host":                    get("Host: b.example"),
		"two equal Host":              get("Host: a.example"),
		"space before the colon":      get("Host : b.example"),
		"a continued line":            get("X: a\n Host: b.example"),
		"a continued first line":      "GET / HTTP/1.1\r\n Host: b.example\r\nHost: a.example\r\n\r\n",
		"bare LF":                     "GET / HTTP/1.1\r\nHost: a.example\nX: y\r\n\r\n",
		"bare CR":                     "GET / HTTP/1.1\r\nHost: a.example\r\nX: y\rHost: b.example\r\n\r\n",
		"LF only":                     "GET / HTTP/1.1\nHost: a.example\n\n",
		"NUL in a value":              get("X: a\x00b"),
		"NUL in a name":               get("X\x00: b"),
		"no colon":                    get("Host"),
		"no name":                     get(": b"),
		"host with underscore":        get("Content_Length: 5"),
		"another target":              target("http://b.example/"),
		"userinfo in the target":      target("http://a.example@b.example/"),
		"backslash in the target":     target(`http://a.example\@b.example/`),
		"another port in the target":  target("http://a.example:81/"),
		"https in the target":         target("https://a.example/"),
		"authority form":              target("a.example:80"),
		"a relative path":             target("x"),
		"star":                        target("*"),
		"tab in the target":           target("/\tx"),
		"two spaces":                  target(" /"),
		"space in the target":         target("/x y"),
		"another version":             crlf("GET / HTTP/2.0\nHost: a.example\n\n"),
		"h2c with prior knowledge":    crlf("PRI * HTTP/2.0\n\nSM\n\n"),
		"CONNECT":                     crlf("CONNECT b.example:443 HTTP/1.1\nHost: a.example\n\n"),
		"TRACE":                       crlf("TRACE / HTTP/1.1\nHost: a.example\n\n"),
		"a method that is none":       crlf("GE(T / HTTP/1.1\nHost: a.example\n\n"),
		"TLS":                         "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n",
		"length and chunks":           post("Content-Length: 3\n"+chunked, "0\r\n\r\n"),
		"chunks and length":           post(chunked+"\nContent-Length: 3", "0\r\n\r\n"),
		"two lengths":                 post("Content-Length: 3\nContent-Length: 4", "abcd"),
		"two equal lengths":           post("Content-Length: 3\nContent-Length: 3", "abc"),
		"a list of lengths":           post("Content-Length: 3, 3", "abc"),
		"length +3":                   post("Content-Length: +3", "abc"),
		"length -1":                   post("Content-Length: -1", "abc"),
		"length 0x3":                  post("Content-Length: 0x3", "abc"),
		"no length":                   post("Content-Length:", "abc"),
		"a long length":               post("Content-Length: 99999999999999999999", "abc"),
		"two codings":                 post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"),
		"chunked twice":               post(chunked+"\n"+chunked, "0\r\n\r\n"),
		"identity":                    post("Transfer-Encoding: identity", "0\r\n\r\n"),
		"xchunked":                    post("Transfer-Encoding: xchunked", "0\r\n\r\n"),
		"vertical tab":                post("Transfer-Encoding: \vchunked", "0\r\n\r\n"),
		"chunks in 1.0":               crlf("POST / HTTP/1.0\nHost: a.example\n" + chunked + "\n\n0\n\n"),
		"a chunk's extension":         post(chunked, "3;a=b\r\nabc\r\n0\r\n\r\n"),
		"a chunk's size with 0x":      post(chunked, "0x3\r\nabc\r\n0\r\n\r\n"),
		"a chunk's size with a space": post(chunked, "3 \r\nabc\r\n0\r\n\r\n"),
		"a negative chunk":            post(chunked, "-3\r\nabc\r\n0\r\n\r\n"),
		"a huge chunk":                post(chunked, "fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
		"a chunk without size":        post(chunked, "\r\nabc\r\n0\r\n\r\n"),
		"a chunk with LF":             post(chunked, "3\nabc\r\n0\r\n\r\n"),
		"a chunk too long":            post(chunked, "3\r\nabcd\r\n0\r\n\r\n"),
		"a chunk that ends in LF":     post(chunked, "3\r\nabc\n0\r\n\r\n"),
		"a chunk with another end":    post(chunked, "3\r\nabcXY0\r\n\r\n"),
		"a trailer that is none":      post(chunked, "0\r\nGET / HTTP/1.1\r\n\r\n"),
		"a long head":                 get("X: " + strings.Repeat("a", maxHead)),
		"many fields":                 get(strings.TrimSuffix(strings.Repeat("X: a\n", maxFields+1), "\n")),
		"a long method":               crlf(strings.Repeat("A", 40) + " / HTTP/1.1\nHost: a.example\n\n"),
		"two Upgrade":                 get("Connection: upgrade\nUpgrade: websocket\nUpgrade: h2c"),
	} {
		for _, before := range []string{"", crlf("GET /first HTTP/1.1\nHost: a.example\n\n")} {
			got, err := run(before+in, 80, true)
			var e *Error
			if !errors.As(err, &e) || e.Status != 400 && e.Status != 403 {
				t.Errorf("%s: %v", what, err)
			}
			if strings.Contains(got, "b.example") {
				t.Errorf("%s: the server gets %q", what, got)
			}
		}
	}
	for what, in := range map[string]string{
		"a head that is cut":   "GET / HTTP/1.1\r\nHost: a.exa",
		"a head without end":   "GET / HTTP/1.1\r\n",
		"a body that is cut":   post("Content-Length: 5", "abc"),
		"a chunk that is cut":  post(chunked, "5\r\nabc"),
		"chunks without end":   post(chunked, "3\r\nabc\r\n"),
		"trailers without end": post(chunked, "0\r\n"),
	} {
		if _, err := run(in, 80, false); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{"a\r\n": "a", "\r\n": "", "a\n": "-", "a\r\r\n": "-", "a\rb\r\n": "-", "a\x00\r\n": "-", "a\r": "-", "": "-", "aaaaaaaaaaa\r\n": "-"} {
		budget := 10
		if got, err := line(bufio.NewReader(strings.NewReader(in)), &budget); err == nil && got != want || (err == nil) == (want == "-") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		in   string
		code int
		rest string
	}{
		{"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\nraw", 101, "raw"},
		{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx", 200, "x"},
		{"HTTP/1.0 426 x\r\n\r\n", 426, ""},
		{"HTTP/1.1 20\r\n\r\n", 0, ""},
		{"SSH-2.0\r\n\r\n", 0, ""},
		{"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: a\r\n", maxHead), 0, ""},
		{"HTTP/1.1 200 OK\r\n", 0, ""},
		{strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxHead), 0, ""},
	} {
		r := bufio.NewReader(strings.NewReader(c.in))
		code, raw, err := Status(r)
		if code != c.code || (err != nil) != (c.code == 0) || !strings.HasPrefix(c.in, string(raw)) {
			t.Errorf("%.40q: %d, %v", c.in, code, err)
		}
		if rest, _ := io.ReadAll(r); err == nil && string(rest) != c.rest {
			t.Errorf("%q: %q is left", c.in, rest)
		}
	}
}

func TestRefusal(t *testing.T) {
	for want, err := range map[int]error{403: denied("a request for %s", "b\r\nX: y"), 400: malformed("x")} {
		resp, e := http.ReadResponse(bufio.NewReader(bytes.NewReader(Refusal(err))), nil)
		if e != nil || resp.StatusCode != want || !resp.Close || len(resp.Header) != 2 {
			t.Errorf("%v, %v", resp, e)
			continue
		}
		if body, e := io.ReadAll(resp.Body); e != nil || !strings.HasPrefix(string(body), "refused: ") || strings.Count(string(body), "\n") != 1 {
			t.Errorf("%q, %v", body, e)
		}
	}
}

// FuzzCopy: what the server gets is to net/http as many requests as were judged, all for the name.
func FuzzCopy(f *testing.F) {
	f.Add(crlf("GET / HTTP/1.1\nHost: a.example\n\nPOST http://a.example/ HTTP/1.1\nHost: a.example\nContent-Length: 3\n\nabc"))
	f.Add(crlf("POST / HTTP/1.1\nHost: a.example\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\nGET / HTTP/1.0\nHost: a.example\nConnection: close\n\n"))
	f.Add(crlf("POST / HTTP/1.1\nHost: a.example\nContent-Length: 3\nTransfer-Encoding: chunked\n\n0\n\n"))
	f.Fuzz(func(t *testing.T, in string) {
		var out bytes.Buffer
		judged := 0
		err := Copy(&out, strings.NewReader(in), "a.example", 80, func(*Request) error { judged++; return nil }, func() bool { return false })
		r := bufio.NewReader(&out)
		n := 0
		for ; ; n++ {
			q, e := http.ReadRequest(r)
			if e != nil {
				if err == nil && !errors.Is(e, io.EOF) && !strings.Contains(e.Error(), "invalid URI") && !strings.Contains(e.Error(), "parse ") {
					t.Fatalf("net/http refuses what passed: %v", e)
				}
				if !errors.Is(e, io.EOF) {
					return
				}
				break
			}
			if q.Host != "a.example" {
				t.Fatalf("a request for %q", q.Host)
			}
			if _, e := io.Copy(io.Discard, q.Body); e != nil && err == nil {
				t.Fatalf("a body that net/http refuses: %v", e)
			}
		}
		if n != judged {
			t.Fatalf("%d requests were judged, the server gets %d", judged, n)
		}
	})
}
