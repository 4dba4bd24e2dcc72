package terminate

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"agentjail.dev/runtime/network/names/egress"
	"agentjail.dev/runtime/network/names/internal/http1"
)

const (
	host        = "api.example.test"
	value       = "hunter2-hunter2"
	placeholder = "agentjail-0123456789abcdef"
)

// http2Lab is a connection of HTTP/2 through Serve.
type http2Lab struct {
	client  *tls.Conn // the jail's side
	raw     net.Conn
	done    chan struct{}
	up      atomic.Int64 // requests that the server got
	mu      sync.Mutex
	refused []string
	left    int
}

// newLab begins one to a server.
func newLab(t *testing.T, server http.Handler) *http2Lab {
	t.Helper()
	l := newLabOver(t, server, dialed)
	t.Cleanup(func() { l.client.Close(); <-l.done })
	return l
}

// newLabOver is newLab over connections that connect makes.
func newLabOver(t *testing.T, server http.Handler, connect func(*testing.T) (a, b net.Conn)) *http2Lab {
	t.Helper()
	l := &http2Lab{done: make(chan struct{})}
	client, in := pipe(t, connect)
	up, far := pipe(t, connect)
	l.raw = client.NetConn()
	l.client = client
	one := &singleListener{conn: make(chan net.Conn, 1), ended: make(chan struct{})}
	one.conn <- far
	go func() {
		_ = (&http.Server{ConnState: one.state, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.up.Add(1)
			server.ServeHTTP(w, r)
		})}).Serve(one)
	}()
	find := func(text string) error {
		if strings.Contains(text, placeholder) {
			return &http1.Error{Status: 403, Reason: "the placeholder"}
		}
		return nil
	}
	go func() {
		defer close(l.done)
		serveHTTP2(&egress.HTTP2Conn{
			Client: in, Server: up, Host: host,
			Judge: func(h *http1.Head) (*http1.Request, error) {
				q, err := http1.Judge(h, host, 443, 443)
				if err == nil && q.Find(placeholder, "authorization") {
					err = find(placeholder)
				}
				if err == nil {
					q.Set("authorization", "Bearer "+value)
				}
				return q, err
			},
			Own: func(name string) bool { return name == "authorization" },
			Scan: func() (body, fields func([]byte) error) {
				var all []byte
				return func(b []byte) error { all = append(all, b...); return find(string(all)) }, func(b []byte) error { return find(string(b)) }
			},
			Reveals: func(text string) bool { return strings.Contains(text, value) },
			Refused: func(err error) {
				l.mu.Lock()
				l.refused = append(l.refused, err.Error())
				l.mu.Unlock()
			},
			LeftOut: func(n int) { l.mu.Lock(); l.left += n; l.mu.Unlock() },
			Sent:    func(int) {}, Got: func(int) {},
		})
		in.Close()
		up.Close()
	}()
	return l
}

// dialed is a connection of TCP.
func dialed(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err == nil {
		b, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// certificate is the server's.
var certificate = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{host}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
})

// pipe is a connection of TLS that speaks HTTP/2.
func pipe(t *testing.T, connect func(*testing.T) (a, b net.Conn)) (client, server *tls.Conn) {
	t.Helper()
	own, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	a, b := connect(t)
	client = tls.Client(a, &tls.Config{ServerName: host, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	server = tls.Server(b, &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: []string{"h2"}, SessionTicketsDisabled: true})
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	if err := errors.Join(client.Handshake(), <-shaken); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// speak is a client of the lab.
func (l *http2Lab) speak(t *testing.T) *http.ClientConn {
	t.Helper()
	both := new(http.Protocols)
	both.SetHTTP2(true)
	c, err := (&http.Transport{
		Protocols: both, DisableCompression: true, DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return l.client, nil },
	}).NewClientConn(context.Background(), "https", host+":443")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func request(t *testing.T, method, target, as string, body io.Reader, fields ...string) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "https://"+as+target, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

// TestRequests: each request of a connection is judged, and gets the credential; responses do not
// have it.
func TestRequests(t *testing.T) {
	l := newLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if r.URL.Path == "/echo" {
			w.Header().Set("X-Echo", r.Header.Get("Authorization"))
			w.Header().Set("Link", r.Header.Get("Authorization"))
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			w.Header().Set("Trailer", "X-Late")
			w.WriteHeader(200)
			w.Header().Set("X-Late", "="+value)
			w.Header().Set(http.TrailerPrefix+"X-Later", "="+value)
			w.Header().Set(http.TrailerPrefix+"X-Fine", "fine")
		}
		fmt.Fprintf(w, "%s %s %s %q %q %s", r.Method, r.Host, r.RequestURI, r.Header["Authorization"], r.Trailer["X-End"], body)
	}))
	c := l.speak(t)
	const auth = `["Bearer ` + value + `"]`
	for _, w := range []struct {
		what string
		r    *http.Request
		code int
		want string
	}{
		{"no header", request(t, "GET", "/a?b=%2f", host, nil), 200, "GET " + host + " /a?b=%2f " + auth + " [] "},
		{"a path as it came", request(t, "GET", "/a%2fb/../c//d", host, nil), 200, "GET " + host + " /a%2fb/../c//d " + auth + " [] "},
		{"the placeholder in its header", request(t, "POST", "/", host, strings.NewReader("sent"), "Authorization", placeholder), 200, "POST " + host + " / " + auth + " [] sent"},
		{"a Host with the port", request(t, "GET", "/", host+":443", nil), 200, "GET " + host},
		{"an echo", request(t, "GET", "/echo", host, nil), 200, "GET "},
		{"another host", request(t, "GET", "/", "other.example.test", nil), 403, "other.example.test"},
		{"another port", request(t, "GET", "/", host+":80", nil), 403, "port 80"},
		{"the placeholder in a path", request(t, "GET", "/"+placeholder, host, nil), 403, "placeholder"},
		{"the placeholder in another header", request(t, "GET", "/", host, nil, "X-Key", placeholder), 403, "placeholder"},
		{"the placeholder in a body", request(t, "POST", "/", host, strings.NewReader("-"+placeholder)), 403, "placeholder"},
		{"a field that a server may take for another", request(t, "GET", "/", host, nil, "Content_Length", "3"), 400, "content_length"},
		{"TRACE", request(t, "TRACE", "/", host, nil), 403, "TRACE"},
	} {
		var early http.Header
		r := w.r.WithContext(httptrace.WithClientTrace(w.r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { early = http.Header(h); return nil }}))
		p, err := c.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", w.what, err)
		}
		body, err := io.ReadAll(p.Body)
		if err != nil || p.StatusCode != w.code || !strings.Contains(string(body), w.want) {
			t.Errorf("%s: %d %q, %v", w.what, p.StatusCode, body, err)
		}
		if seen := fmt.Sprint(early, p.Header, p.Trailer); strings.Contains(seen, value) {
			t.Errorf("%s: the client gets %s", w.what, seen)
		}
		if w.what == "an echo" && (p.Trailer.Get("X-Fine") != "fine" || l.left != 5) {
			t.Errorf("trailers %v, %d fields left out", p.Trailer, l.left)
		}
	}
	r := request(t, "POST", "/", host, io.NopCloser(strings.NewReader("x")))
	r.Trailer = http.Header{"X-End": {"end"}}
	if p, err := c.RoundTrip(r); err != nil {
		t.Error(err)
	} else if body, _ := io.ReadAll(p.Body); !strings.Contains(string(body), `["end"] x`) {
		t.Errorf("a trailer: %q", body)
	}
	r = request(t, "POST", "/", host, io.NopCloser(strings.NewReader("x")))
	r.Trailer = http.Header{"X-End": {placeholder}}
	if p, err := c.RoundTrip(r); err == nil && p.StatusCode != 403 {
		t.Errorf("the placeholder in a trailer: %d", p.StatusCode)
	}
}

// TestStreams: bodies go both ways at once, as they come.
func TestStreams(t *testing.T) {
	l := newLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		buf := make([]byte, 64)
		for {
			n, err := r.Body.Read(buf)
			_, _ = w.Write(bytes.ToUpper(buf[:n]))
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				break
			}
		}
		w.Header().Set("Grpc-Status", "0"+r.Header.Get("Te"))
	}))
	in, out := io.Pipe()
	r := request(t, "POST", "/", host, in, "Te", "trailers")
	go func() { _, _ = io.WriteString(out, "a") }()
	p, err := l.speak(t).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1)
	for _, c := range "abc" {
		if c != 'a' {
			_, _ = io.WriteString(out, string(c))
		}
		if _, err := io.ReadFull(p.Body, buf); err != nil || string(buf) != strings.ToUpper(string(c)) {
			t.Fatalf("%q, %v", buf, err)
		}
	}
	out.Close()
	if _, err := io.ReadAll(p.Body); err != nil || p.Trailer.Get("Grpc-Status") != "0trailers" {
		t.Errorf("%v, %v", p.Trailer, err)
	}
}

// TestServerEnds: when the server ends its connection, so does the client's.
func TestServerEnds(t *testing.T) {
	l := newLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close") }))
	c := l.speak(t)
	if p, err := c.RoundTrip(request(t, "GET", "/", host, nil)); err != nil || p.StatusCode != 200 {
		t.Fatal(p, err)
	}
	select {
	case <-l.done:
	case <-time.After(20 * time.Second):
		t.Error("the client's connection goes on")
	}
}

// floods are what a client of HTTP/2 can send without end.
var floods = map[string]func(f *http2.Framer, head []byte, id *uint32) error{
	"rapid reset": func(f *http2.Framer, head []byte, id *uint32) error {
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: *id, BlockFragment: head, EndStream: true, EndHeaders: true}); err != nil {
			return err
		}
		*id += 2
		return f.WriteRSTStream(*id-2, http2.ErrCodeCancel)
	},
	"CONTINUATION": func(f *http2.Framer, head []byte, id *uint32) error {
		if *id == 1 {
			*id = 3
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: head})
		}
		return f.WriteContinuation(3, false, bytes.Repeat([]byte{0x40, 1, 'x', 1, 'y'}, 1000))
	},
	"SETTINGS": func(f *http2.Framer, _ []byte, _ *uint32) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096})
	},
	"PING": func(f *http2.Framer, _ []byte, _ *uint32) error { return f.WritePing(false, [8]byte{}) },
	"a large frame": func(f *http2.Framer, _ []byte, _ *uint32) error {
		return f.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, maxFrame+1))
	},
	"a large head": func(f *http2.Framer, head []byte, id *uint32) error {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for range 50 {
			_ = e.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("~", 8000), Sensitive: true})
		}
		block := append(slices.Clone(head), b.Bytes()...)
		first := true
		for len(block) > 0 {
			part := block[:min(maxFrame, len(block))]
			block = block[len(part):]
			var err error
			if first {
				err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: *id, BlockFragment: part, EndHeaders: len(block) == 0, EndStream: true})
			} else {
				err = f.WriteContinuation(*id, len(block) == 0, part)
			}
			if err != nil {
				return err
			}
			first = false
		}
		*id += 2
		return nil
	},
	"streams beyond the bound": func(f *http2.Framer, head []byte, id *uint32) error {
		*id += 2
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: *id - 2, BlockFragment: head, EndHeaders: true})
	},
}

// TestFloods: what has no end ends the connection, and little of it reaches the server.
func TestFloods(t *testing.T) {
	for what, flood := range floods {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
			if _, err := io.WriteString(l.client, http2.ClientPreface); err != nil {
				t.Fatal(err)
			}
			f := http2.NewFramer(l.client, l.client)
			f.AllowIllegalWrites = true
			if err := f.WriteSettings(); err != nil {
				t.Fatal(err)
			}
			var head bytes.Buffer
			e := hpack.NewEncoder(&head)
			for _, h := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", host}, {":path", "/"}} {
				_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
			}
			id := uint32(1)
			deadline := time.Now().Add(5 * time.Second)
			_ = l.client.SetWriteDeadline(deadline)
			for {
				if err := flood(f, head.Bytes(), &id); err != nil {
					break // the other side's data is not read, so that it has to buffer it
				}
			}
			if !time.Now().Before(deadline) {
				// The other side may read no more: then the connection is ended as a stalled one.
				t.Logf("not ended before the deadline")
			}
			l.raw.Close()
			<-l.done
			if n := l.up.Load(); n > 2*(resets+maxStreams) {
				t.Errorf("the server got %d requests", n)
			}
		})
	}
}
