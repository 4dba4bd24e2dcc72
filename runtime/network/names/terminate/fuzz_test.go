package terminate

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// block encodes fields without a table that both sides keep.
func block(fields ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
	}
	return b.Bytes()
}

// FuzzHTTP2: whatever frames a jail sends, each request that reaches the server is for the
// credential's host, with the credential once and the placeholder nowhere; no field of a response
// has the credential, and the connection ends.
func FuzzHTTP2(f *testing.F) {
	get := []string{":method", "GET", ":scheme", "https", ":authority", host, ":path", "/"}
	heads := [][]string{
		get,
		{":method", "CONNECT", ":authority", "other.example.test:443"},
		{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", host, ":path", "/"},
		{":method", "OPTIONS", ":scheme", "https", ":authority", host, ":path", "*"},
		{":method", "GET", ":scheme", "https", ":path", "/"},
		{":method", "GET", ":scheme", "http", ":authority", host, ":path", "//other.example.test/a"},
		{":method", "GET", ":scheme", "https", ":authority", host, ":path", "https://other.example.test/"},
		{":method", "GET", ":scheme", "https", ":authority", "a@" + host + ":443", ":path", "/?" + placeholder},
		{":method", "GET", ":authority", host, ":authority", "other.example.test", ":scheme", "https", ":path", "/"},
	}
	for _, fields := range [][]string{
		{"host", "other.example.test"},
		{"authorization", placeholder},
		{"Authorization", "x"},
		{"authorization", "a", "authorization", "b"},
		{"x", placeholder},
		{"transfer-encoding", "chunked"},
		{"content-length", "3"},
		{"te", "trailers"},
		{"connection", "authorization"},
		{"trailer", "authorization, host"},
		{"upgrade", "h2c"},
		{"x-forwarded-host", "a"},
		{"content_length", "1"},
		{"expect", "100-continue"},
		{"cookie", "a", "cookie", "b"},
		{":path", "/b"},
	} {
		heads = append(heads, append(get[:len(get):len(get)], fields...))
	}
	for _, fields := range heads {
		for _, rest := range []string{"", "abc", placeholder[9:]} {
			ends := rest == ""
			var b bytes.Buffer
			fr := http2.NewFramer(&b, nil)
			fr.AllowIllegalWrites = true
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(fields...), EndStream: ends, EndHeaders: true})
			if !ends {
				_ = fr.WriteData(1, false, []byte(placeholder[:9]))
				_ = fr.WriteData(1, false, []byte(rest))
				_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block("host", "b", "authorization", placeholder), EndStream: true, EndHeaders: true})
				_ = fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 14}, http2.Setting{ID: http2.SettingHeaderTableSize})
				_ = fr.WriteRSTStream(3, http2.ErrCodeCancel)
				_ = fr.WriteWindowUpdate(0, 1<<31-1)
			}
			f.Add(b.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, frames []byte) {
		bad := make(chan string, 1)
		l := newLabOver(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			auth := r.Header["Authorization"]
			delete(r.Header, "Authorization")
			whole := fmt.Sprint(r.Method, r.RequestURI, r.Header, r.Trailer, string(body))
			if r.Host != host || r.TLS == nil || len(auth) != 1 || auth[0] != "Bearer "+value || strings.Contains(whole, placeholder) || r.Trailer["Authorization"] != nil {
				select {
				case bad <- fmt.Sprintf("for %q with %q: %s", r.Host, auth, whole):
				default:
				}
			}
			if r.RequestURI == lastPath {
				return // without a body, which the jail may leave no window for
			}
			w.Header().Set("X-Echo", auth[0])
			w.Header().Set(value, "a name")
			w.Header().Set(http.TrailerPrefix+"X-Late", auth[0])
			_, _ = w.Write([]byte("body"))
		}), func(*testing.T) (a, b net.Conn) { return net.Pipe() })
		end := time.AfterFunc(8*time.Second, func() { l.raw.Close() })
		back := make(chan string)
		go func() { back <- revealed(l.client) }()
		var b bytes.Buffer
		fr := http2.NewFramer(&b, nil)
		b.WriteString(http2.ClientPreface)
		_ = fr.WriteSettings()
		at := whole(frames)
		b.Write(frames[:at])
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: last, BlockFragment: block(append(get[:6:6], ":path", lastPath)...), EndStream: true, EndHeaders: true})
		b.Write(frames[at:])
		_, _ = l.client.Write(b.Bytes())
		if text := <-back; text != "" {
			t.Errorf("%q: the jail gets %s", frames, text)
		}
		if !end.Stop() {
			t.Errorf("%q: no end", frames)
		}
		l.raw.Close() // Go's side ends a second after some errors, for which nothing waits here
		select {
		case text := <-bad:
			t.Errorf("%q: the server got a request %s", frames, text)
		default:
		}
	})
}

// last is the stream of the request after all others.
const last, lastPath = 1<<31 - 1, "/last"

// whole is the length of the frames that are not cut off.
func whole(frames []byte) (n int) {
	for len(frames) >= n+9 { // RFC 9113, section 4.1
		size := 9 + int(frames[n])<<16 + int(frames[n+1])<<8 + int(frames[n+2])
		if len(frames)-n < size {
			break
		}
		n += size
	}
	return n
}

// revealed reads to the last response's end, or the connection's, and returns a field with the
// credential.
func revealed(c *tls.Conn) string {
	fr := http2.NewFramer(io.Discard, c)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	found := ""
	for {
		frame, err := fr.ReadFrame()
		if _, one := errors.AsType[http2.StreamError](err); err != nil && !one {
			return found
		}
		switch h := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range h.Fields {
				if strings.Contains(field.Name+": "+field.Value, value) {
					found = field.String()
				}
			}
		case *http2.GoAwayFrame: // Go closes the connection a second later
			if h.ErrCode != http2.ErrCodeNo {
				return found
			}
		case *http2.RSTStreamFrame:
			if h.StreamID == last {
				return found
			}
		}
		if frame != nil && frame.Header().StreamID == last && frame.Header().Flags.Has(http2.FlagHeadersEndStream) {
			return found
		}
	}
}
