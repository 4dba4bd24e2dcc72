package install

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// serve answers on a socket with a real HTTP server and returns the socket's path.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return path
}

func TestGet(t *testing.T) {
	long := strings.Repeat("0123456789", 100_000)
	socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			// Flushed in between: HTTP/1.1 would be answered in chunks.
			for i := 0; i < len(long); i += 50_000 {
				_, _ = io.WriteString(w, long[i:i+50_000])
				w.(http.Flusher).Flush()
			}
		case "/empty":
		case "/huge":
			_, _ = w.Write(make([]byte, apiMost+1))
		default:
			http.Error(w, "no such page", http.StatusNotFound)
		}
	})
	for _, c := range []struct{ path, want, err string }{
		{"/long", long, ""},
		{"/empty", "", ""},
		{"/none", "", "404 Not Found: no such page"},
		{"/huge", "", "more than"},
	} {
		got, err := get(context.Background(), socket, c.path)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want an error with %q", c.path, err, c.err)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %d bytes, %v", c.path, len(got), err)
		}
	}
	if _, err := get(context.Background(), socket+"x", "/"); err == nil {
		t.Error("a socket that is not there answers")
	}
}

// The process that listens may not be a daemon at all.
func TestGetFromSomethingElse(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing": "", "noise": "\x00\x01\r\n\r\n", "cut short": "HTTP/1.0 200 OK\r\nContent-Type: x\r\n", "other protocol": "SSH-2.0-x\r\n\r\n",
	} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if c, err := l.Accept(); err == nil {
				buf := make([]byte, 4096)
				_, _ = c.Read(buf)
				_, _ = io.WriteString(c, answer)
				c.Close()
			}
		}()
		if body, err := get(context.Background(), path, "/info"); err == nil {
			t.Errorf("%s: taken for an answer: %q", name, body)
		}
		l.Close()
	}
}
