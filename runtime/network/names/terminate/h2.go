package terminate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"agentjail.dev/runtime/network/names/egress"
	"agentjail.dev/runtime/network/names/internal/http1"
)

// Bounds of a connection, in bytes but for the first. The maximum number of connections at once
// fits into the helper's memory.
const (
	maxStreams    = 32
	maxHeaders    = 32 << 10 // of a request
	maxAnswer     = 64 << 10 // of a response's fields
	maxFrame      = 16 << 10
	upWindow      = 128 << 10 // of all bodies that the server has not taken yet
	upStream      = 64 << 10
	downWindow    = 2 << 20 // of all bodies that the client has not taken yet
	downStream    = 1 << 20
	copyBuffer    = 8 << 10
	http2IdleTime = 2 * time.Minute
	pingTime      = time.Minute // without a frame, the other side is checked whether it is there
	answerTime    = 15 * time.Second
	stalledTime   = 2 * time.Minute // nothing could be written
	// resets is how many requests a client may cancel at once, and resetsPerSecond the rate after
	// that. Each costs the server a request, too (CVE-2023-44487).
	resets          = 200
	resetsPerSecond = 20
)

// discardLog discards the libraries' log messages.
var discardLog = log.New(io.Discard, "", 0)

// serveHTTP2 serves HTTP/2 with the jail's program on one side and the server on the other, one
// connection each, until one of them ends. Every request is judged like one of HTTP/1, and written
// anew. Nothing is translated into another version of HTTP, since the client is offered HTTP/2 only
// if the server supports it.
//
// A jail's use of the helper's memory and its number of requests to the server are bounded: see the
// constants.
func serveHTTP2(c *egress.HTTP2Conn) {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	t := &http.Transport{
		Protocols: protocols, DisableCompression: true, MaxResponseHeaderBytes: maxAnswer,
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return c.Server, nil },
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: downWindow, MaxReceiveBufferPerStream: downStream,
			SendPingTimeout: pingTime, PingTimeout: answerTime, WriteByteTimeout: stalledTime,
		},
	}
	s := &http2Conn{c: c, left: resets, since: time.Now()}
	var err error
	if s.server, err = t.NewClientConn(context.Background(), "https", c.Host+":443"); err != nil {
		return
	}
	defer s.server.Close()
	s.proxy = &httputil.ReverseProxy{
		Rewrite: s.rewrite, Transport: s.server, FlushInterval: -1, ErrorLog: discardLog, BufferPool: bufferPool{},
		ErrorHandler: s.failed,
	}
	one := &singleListener{conn: make(chan net.Conn, 1), ended: make(chan struct{})}
	one.conn <- c.Client
	own := &http.Server{
		Handler: s, Protocols: protocols, MaxHeaderBytes: maxHeaders, ErrorLog: discardLog, IdleTimeout: http2IdleTime,
		ConnState: one.state,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: upWindow,
			MaxReceiveBufferPerStream: upStream,
			SendPingTimeout:           pingTime, PingTimeout: answerTime, WriteByteTimeout: stalledTime,
		},
	}
	// If the server's connection is lost, requests in progress end, and the client is informed that
	// no other request is accepted.
	s.server.SetStateHook(func(conn *http.ClientConn) {
		if conn.Err() != nil {
			go s.gone.Do(func() { _ = own.Shutdown(context.Background()) })
		}
	})
	_ = own.Serve(one)
	<-one.ended
}

// singleListener is a listener with one connection.
type singleListener struct {
	conn  chan net.Conn
	ended chan struct{}
	once  sync.Once
}

// Accept returns the connection once, and then an error.
func (l *singleListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close has nothing to do: the connection goes on.
func (l *singleListener) Close() error { return nil }

// Addr returns an empty address.
func (l *singleListener) Addr() net.Addr { return &net.TCPAddr{} }

// state is called with each new state of the connection.
func (l *singleListener) state(_ net.Conn, now http.ConnState) {
	if now == http.StateClosed {
		l.once.Do(func() { close(l.ended) })
	}
}

// http2Conn is the state of one connection.
type http2Conn struct {
	c      *egress.HTTP2Conn
	server *http.ClientConn
	proxy  *httputil.ReverseProxy
	gone   sync.Once

	mu    sync.Mutex
	left  float64 // of resets
	since time.Time
}

// judgedKey is the context key of a judged request.
type judgedKey struct{}

// ServeHTTP serves a request.
func (s *http2Conn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := s.judge(r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	defer s.ended(r)
	out := &strippingWriter{ResponseWriter: w, s: s}
	s.proxy.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), judgedKey{}, q)))
	out.strip() // trailers
}

// judge judges a request in the form that it would have in HTTP/1.
func (s *http2Conn) judge(r *http.Request) (*http1.Request, error) {
	if !strings.HasPrefix(r.RequestURI, "/") && r.RequestURI != "*" && r.Method != http.MethodConnect {
		return nil, &http1.Error{Status: 400, Reason: "a request's target that is not a path"}
	}
	h := &http1.Head{Method: r.Method, Target: r.RequestURI, Minor: 1, Fields: []http1.Field{{Name: "host", Value: r.Host}}}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, v := range r.Header[name] {
			f := http1.Field{Name: strings.ToLower(name), Value: strings.Trim(v, " \t")}
			if f != h.Fields[0] {
				h.Fields = append(h.Fields, f)
			}
		}
	}
	q, err := s.c.Judge(h)
	if err == nil {
		n := len(h.Target)
		for _, f := range h.Fields {
			n += len(f.Name) + len(f.Value)
		}
		s.c.Sent(n)
	}
	return q, err
}

// rewrite builds the server's request from the judged parts only.
func (s *http2Conn) rewrite(p *httputil.ProxyRequest) {
	q := p.In.Context().Value(judgedKey{}).(*http1.Request)
	out := p.Out
	out.Host = q.Host()
	if p.In.URL.RequestURI() != q.Target {
		out.URL = &url.URL{Opaque: q.Target} // as it came
	}
	out.URL.Scheme, out.URL.Host = "https", q.Host()
	out.Header, out.Trailer = http.Header{}, nil
	for _, f := range q.Fields() {
		if f.Name != "expect" { // it is answered here
			out.Header.Add(f.Name, f.Value)
		}
	}
	if slices.Contains(p.In.Header["Te"], "trailers") {
		out.Header.Set("Te", "trailers")
	}
	if _, has := out.Header["User-Agent"]; !has {
		out.Header.Set("User-Agent", "") // none, and not the library's
	}
	if out.Body == nil {
		return
	}
	body, fields := s.c.Scan()
	counted := func(see func([]byte) error) func([]byte) error {
		return func(part []byte) error {
			err := see(part)
			if err != nil {
				s.c.Refused(err) // there may be a response already
			} else {
				s.c.Sent(len(part))
			}
			return err
		}
	}
	b := &scannedBody{ReadCloser: out.Body, of: p.In, see: counted(body), seeField: counted(fields)}
	for name := range p.In.Trailer {
		if !s.c.Own(strings.ToLower(strings.ReplaceAll(name, "_", "-"))) {
			if out.Trailer == nil {
				out.Trailer = http.Header{}
			}
			out.Trailer[name] = nil
		}
	}
	b.trailer = out.Trailer
	out.Body = b
}

// scannedBody is a request's body that is searched for placeholders.
type scannedBody struct {
	io.ReadCloser
	see      func([]byte) error
	seeField func([]byte) error
	of       *http.Request
	trailer  http.Header
}

// Read returns the bytes that may be sent on.
func (b *scannedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		if bad := b.see(p[:n]); bad != nil {
			return 0, bad
		}
	}
	if err == io.EOF {
		for name := range b.trailer {
			for _, v := range append([]string{name}, b.of.Trailer[name]...) {
				if bad := b.seeField([]byte("\n" + v)); bad != nil {
					return n, bad
				}
			}
			b.trailer[name] = b.of.Trailer[name]
		}
	}
	return n, err
}

// failed answers a request for which the server has no response.
func (s *http2Conn) failed(w http.ResponseWriter, _ *http.Request, err error) {
	if _, bad := errors.AsType[*http1.Error](err); bad { // of its body
		deny(w, err)
		return
	}
	writeText(w, http.StatusBadGateway, fmt.Sprintf("no response of the server: %q\n", err.Error()))
}

// refuse answers a request that is not sent on.
func (s *http2Conn) refuse(w http.ResponseWriter, why error) {
	s.c.Refused(why)
	deny(w, why)
}

func deny(w http.ResponseWriter, why error) {
	status := http.StatusForbidden
	if bad, ok := errors.AsType[*http1.Error](why); ok {
		status = bad.Status
	}
	writeText(w, status, fmt.Sprintf("refused: %q\n", why.Error()))
}

func writeText(w http.ResponseWriter, status int, text string) {
	clear(w.Header())
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// ended counts the requests that the client cancelled, and closes the connection if there are too
// many.
func (s *http2Conn) ended(r *http.Request) {
	if r.Context().Err() == nil {
		return
	}
	s.mu.Lock()
	now := time.Now()
	s.left = min(resets, s.left+now.Sub(s.since).Seconds()*resetsPerSecond) - 1
	s.since = now
	over := s.left < 0
	s.mu.Unlock()
	if over && s.c.Client.NetConn().Close() == nil {
		s.c.Refused(errors.New("too many requests were taken back"))
	}
}

// strippingWriter writes a response without fields that contain a credential's value. That includes
// trailers and the responses before the final one.
type strippingWriter struct {
	http.ResponseWriter
	s *http2Conn
}

// Unwrap is for http.ResponseController.
func (w *strippingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the response, or an informational one.
func (w *strippingWriter) WriteHeader(status int) {
	w.strip()
	if w.s.server.Err() != nil {
		w.Header().Set("Connection", "close") // no other request would have a response
	}
	for name, values := range w.Header() {
		for _, v := range values {
			w.s.c.Got(len(name) + len(v))
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (w *strippingWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.s.c.Got(n)
	return n, err
}

func (w *strippingWriter) strip() {
	h, n := w.Header(), 0
	for name, values := range h {
		if w.s.c.Reveals(name) || w.s.c.Reveals(strings.ToLower(name)) || slices.ContainsFunc(values, w.s.c.Reveals) {
			delete(h, name)
			n++
		}
	}
	if n > 0 {
		w.s.c.LeftOut(n)
	}
}

// bufferPool is the pool of buffers for copying response bodies.
type bufferPool struct{}

var free = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// Get returns a buffer.
func (bufferPool) Get() []byte { return free.Get().(*[copyBuffer]byte)[:] }

// Put returns a buffer to the pool.
func (bufferPool) Put(b []byte) { free.Put((*[copyBuffer]byte)(b)) }
