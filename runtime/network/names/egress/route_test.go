package egress

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/names/internal/http1"
	"agentjail.dev/runtime/spec/credential/secret"
)

// readHead reads one head.
func readHead(r *bufio.Reader) (all string, err error) {
	for err == nil && !strings.HasSuffix(all, "\r\n\r\n") {
		var line string
		line, err = r.ReadString('\n')
		all += line
	}
	return all, err
}

// TestCarrier: requests get the credential one after another, responses come back as they are judged, and a connection ends when
// either side's does.
func TestCarrier(t *testing.T) {
	const value, placeholder = "hunter2-hunter2", "agentjail-0123456789abcdef"
	get := func(fields string) string { return "GET / HTTP/1.1\r\nHost: a.jail\r\n" + fields + "\r\n" }
	const ok, seen = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "GET / HTTP/1.1\r\nHost: a\r\nx-key: Bearer " + value + "\r\n\r\n"
	for _, c := range []struct {
		what, says string
		answers    []string // of the server, one after each request's head; then it closes
		got, sent  string
	}{
		{"two at once", get("") + get("X-Key: "+placeholder+"\r\n"), []string{ok, ok}, ok + ok, seen + seen},
		{"the server's end", get(""), []string{ok}, ok, seen},
		{"the last one", get("Connection: close\r\n"), []string{ok}, ok, strings.TrimSuffix(seen, "\r\n") + "connection: close\r\n\r\n"},
		{"not final at first", get(""), []string{"HTTP/1.1 100 Continue\r\n\r\n" + ok}, "HTTP/1.1 100 Continue\r\n\r\n" + ok, seen},
		{"the value in a response", get(""), []string{"HTTP/1.1 200 OK\r\nx-echo: =" + value + "\r\ncontent-length: 2\r\n\r\nok"}, ok, seen},
		{"half a body", get(""), []string{"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok"}, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", seen},
		{"no response", get(""), []string{""}, "HTTP/1.1 502 ", seen},
		{"no HTTP", get(""), []string{"SSH-2.0-x\r\n\r\n"}, "HTTP/1.1 502 ", seen},
		{"a response before the body", "POST / HTTP/1.1\r\nHost: a.jail\r\nContent-Length: 9\r\n\r\n", []string{ok}, ok, "POST / HTTP/1.1\r\nHost: a\r\nx-key: Bearer " + value + "\r\ncontent-length: 9\r\n\r\n"},
		{"a protocol that was not requested", get(""), []string{"HTTP/1.1 101 X\r\n\r\nmore"}, "HTTP/1.1 502 ", seen},
	} {
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		creds := &credentials{all: []helperproto.Credential{{Name: "k", Hosts: []string{"a"}, Header: "x-key", Scheme: "Bearer", Placeholder: placeholder, Value: secret.New([]byte(value))}}}
		client, in := pair(t)
		up, far := pair(t)
		f := &flow{s: &server{events: newEvents(1<<20, 0, 0, log), heads: newHeads(), credentials: creds}, client: in, name: "a", port: 443, begun: time.Now()}
		x := &credentialProxy{f: f, client: in, host: "a", own: []*helperproto.Credential{&creds.all[0]}, up: up, raw: up, scan: creds.scan(nil, nil), requestHead: f.s.heads.of(in), responseHead: f.s.heads.of(up)}
		x.server = bufio.NewReader(x.responseHead)
		sent := make(chan string, 1)
		go func() {
			r, all := bufio.NewReader(far), ""
			for _, a := range c.answers {
				head, err := readHead(r)
				all += head
				if err == nil {
					_, err = io.WriteString(far, a)
				}
				if err != nil {
					t.Errorf("%s: the server: %v", c.what, err)
				}
			}
			_ = far.CloseWrite()
			rest, _ := io.ReadAll(r)
			sent <- all + string(rest)
		}()
		if _, err := io.WriteString(client, c.says); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			err := x.serve(http1.NewReader(x.requestHead, "a.jail", 80))
			up.Close()
			in.Close()
			done <- err
		}()
		got, _ := io.ReadAll(client)
		client.Close()
		if !strings.HasPrefix(string(got), c.got) || strings.HasSuffix(c.got, "ok") && string(got) != c.got || strings.Contains(string(got), value) {
			t.Errorf("%s: the client gets %q", c.what, got)
		}
		<-done
		if s := <-sent; s != c.sent {
			t.Errorf("%s: the server gets %q", c.what, s)
		}
		log.Close()
	}
}
