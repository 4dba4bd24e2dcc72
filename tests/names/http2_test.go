package names

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"agentjail.dev/tests/env"
)

// lend2 is a credential for a server of HTTP/2.
const lend2 = `[network]
mode = "names"
allow = ["h2.example.test", "other.example.test"]

[credentials.house]
hosts = ["h2.example.test"]
header = "Authorization: Bearer"
from = "file:%s"
env = "HOUSE_TOKEN"
placeholder = "house_****************"
tls = "end"
`

// serveHTTP2 has h2.example.test speak HTTP/2, gRPC too.
func (n *internet) serveHTTP2(t *testing.T) {
	t.Helper()
	cert := n.certificate(t)
	g := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(g, health.NewServer())
	n.do(func() error {
		if err := env.IP("addr add 5.5.5.11/24 dev net"); err != nil {
			return err
		}
		l, err := listen("5.5.5.11", "443")
		if err != nil {
			return err
		}
		go func() {
			_ = http.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
					n.mu.Lock()
					n.shown = append(n.shown, r.Proto+" "+r.Header.Get("Authorization"))
					n.mu.Unlock()
					g.ServeHTTP(w, r)
					return
				}
				if r.URL.Path != "/echo" { // which sets fields
					fmt.Fprint(w, r.Proto, " ")
				}
				n.handle(w, r)
			}))
		}()
		return nil
	})
}

func init() {
	programs["grpc with key"] = func() (string, error) {
		c, err := grpc.NewClient("h2.example.test:443", grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{})))
		if err != nil {
			return "", err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), clientTime)
		defer cancel()
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+os.Getenv("HOUSE_TOKEN"))
		h := grpc_health_v1.NewHealthClient(c)
		a, err := h.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			return "", err
		}
		w, err := h.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			return "", err
		}
		b, err := w.Recv()
		if err != nil {
			return "", err
		}
		_, err = h.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "none"}) // stated in a trailer
		return fmt.Sprint(a.GetStatus(), b.GetStatus(), err), nil
	}
}

// TestCredentialsHTTP2: programs that speak HTTP/2 have the credential set in each request, and nothing else is different from HTTP/1.
func TestCredentialsHTTP2(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	n.serveHTTP2(t) // whose authority is another
	trust(t, n)
	j := newJail(t, n)
	key := j.writeKey(t, value)
	bundle := filepath.Join(j.b.Rootfs, debianBundle)
	env.Check(t, errors.Join(os.WriteFile(j.conf, fmt.Appendf(nil, lend2, key), 0o600), skeleton(j.b.Rootfs), os.WriteFile(bundle, n.ca, 0o644)))
	j.b.Spec.Mounts = append(j.b.Spec.Mounts, specs.Mount{Destination: "/usr", Type: "bind", Source: "/usr", Options: []string{"rbind", "ro"}})
	j.b.Spec.Process.Env = []string{"PATH=/usr/bin:/bin", "HOME=/"}
	j.start(t)
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", j.helper(t).Pid)); err != nil || filepath.Base(exe) != "agentjail-egress-keys" {
		t.Errorf("the helper is %s, %v", exe, err)
	}
	p := j.placeholder(t)
	use := "h2.example.test Bearer " + value
	const curl = "curl -sS --http2 --max-time 50 -w ' %{http_version} %{http_code}' "
	for _, w := range []struct {
		what, script, want string
		got                []string
	}{
		{"a request", curl + "https://h2.example.test/", "HTTP/2.0 served h2.example.test 2 200", []string{use}},
		{"the placeholder in its header", curl + "-H 'Authorization: Bearer '$HOUSE_TOKEN -d sent https://h2.example.test/", "HTTP/2.0 served h2.example.testsent 2 200", []string{use}},
		{"two requests", curl + "https://h2.example.test/ https://h2.example.test/2", "2 200HTTP/2.0", []string{use, use}},
		{"a large body", "head -c 3000000 /dev/zero | tr '\\0' x >/tmp/b; " + curl + "-T /tmp/b https://h2.example.test/ | tr -d x", "2 200", []string{use}},
		{"an echo", curl + "-i https://h2.example.test/echo", "HTTP/2 200", []string{use}},
		{"HTTP/1.1", "curl -sS --http1.1 https://h2.example.test/", "HTTP/1.1 served h2.example.test", []string{use}},
		{"gRPC", client + " 'grpc with key'", "SERVING SERVING rpc error: code = NotFound", []string{"HTTP/2.0 Bearer " + value, "HTTP/2.0 Bearer " + value, "HTTP/2.0 Bearer " + value}},
		{"another host inside", curl + "-H 'Host: other.example.test' https://h2.example.test/", "2 403", nil},
		{"the placeholder in another header", curl + "-H \"X-Key: $HOUSE_TOKEN\" https://h2.example.test/", "2 403", nil},
		{"the placeholder in a path", curl + "https://h2.example.test/$HOUSE_TOKEN", "2 403", nil},
		{"the placeholder in a body", curl + "-d $HOUSE_TOKEN https://h2.example.test/", "2 200", []string{use}},
	} {
		n.credentials()
		got, _ := j.output(t, strings.ReplaceAll(w.script, "$HOUSE_TOKEN", p))
		if !strings.Contains(got, w.want) || strings.Contains(got, value) {
			t.Errorf("%s: %.300q, want %q", w.what, got, w.want)
		}
		if sent := n.got(w.got); !slices.Equal(sent, w.got) {
			t.Errorf("%s: servers got %q, want %q", w.what, sent, w.got)
		}
	}
	text := env.Read(t, filepath.Join(j.dir(t), "network.log"))
	for _, want := range []string{"the placeholder of credentials.house", "a request for other.example.test in a connection to h2.example.test", "fields of a response", `"credential":"house"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
	j.flooded(t)
	if out, code := j.inspect(t); code != 0 {
		t.Errorf("inspect: %d\n%s", code, out)
	}
}

// helperMemory is the helper's anonymous memory, in KiB.
func (j *jail) helperMemory(t *testing.T) (kib int) {
	t.Helper()
	if _, err := fmt.Sscan(env.Status(t, j.helper(t).Pid, "RssAnon"), &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// flooded has programs of the jail take back requests and open streams without end: the helper stays, within its bounds.
func (j *jail) flooded(t *testing.T) {
	t.Helper()
	t.Logf("before a flood the helper has %d KiB of its own", j.helperMemory(t))
	began := time.Now()
	if got, _ := j.output(t, client+" 'reset requests'"); !strings.Contains(got, "ended") {
		t.Errorf("requests that are taken back: %q", got)
	}
	t.Logf("a flood took %v", time.Since(began).Round(time.Millisecond))
	kib := j.helperMemory(t)
	t.Logf("after a flood the helper has %d KiB of its own", kib)
	if kib > 32<<10 {
		t.Errorf("after a flood the helper has %d KiB", kib)
	}
	if got, _ := j.output(t, "curl -sS --http2 https://h2.example.test/"); !strings.Contains(got, "served") {
		t.Errorf("after a flood: %q", got)
	}
}

func init() {
	// It begins requests and takes them back, by sixteen connections at once, until each is ended.
	programs["reset requests"] = func() (string, error) {
		var all []error
		done := make(chan error)
		for range 16 {
			go func() {
				c, err := tls.Dial("tcp", "h2.example.test:443", &tls.Config{NextProtos: []string{"h2"}})
				if err != nil {
					done <- err
					return
				}
				defer c.Close()
				done <- reset(c)
			}()
		}
		for range 16 {
			all = append(all, <-done)
		}
		return fmt.Sprint("ended ", errors.Join(all...)), nil
	}
}

// reset begins requests and takes them back until the connection is ended.
func reset(c io.ReadWriter) error {
	f, head, err := begin2(c, "h2.example.test")
	for id := uint32(1); err == nil && id < 1<<20; id += 2 {
		if err = f.WriteHeaders(head(id)); err == nil {
			err = f.WriteRSTStream(id, 8)
		}
	}
	return err
}

// begin2 begins a connection of HTTP/2, and reports what begins a request.
func begin2(c io.ReadWriter, host string) (*http2.Framer, func(id uint32) http2.HeadersFrameParam, error) {
	f := http2.NewFramer(c, c)
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", host}, {":path", "/"}} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	_, err := io.WriteString(c, http2.ClientPreface)
	if err == nil {
		err = f.WriteSettings()
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	return f, func(id uint32) http2.HeadersFrameParam {
		return http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true}
	}, err
}
