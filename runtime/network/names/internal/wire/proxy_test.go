package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"agentjail.dev/runtime/network/names/internal/http1"
)

type conn struct {
	io.Reader
	bytes.Buffer
}

func (c *conn) Read(b []byte) (int, error) { return c.Reader.Read(b) }

// names are not names, in any request: one parser accepted them where another truncated.
var names = []string{
	"attacker.com\x00.google.com", "google.com\x00", "\x00", "google.com\r\n", "google.com\r\nHost: b", "google.com\n", "google.com ", " google.com", "go ogle.com", "google.com\t",
	"user@google.com", "user:pw@google.com", "google.com/", "google.com#", "google.com?", "google.com%00", `google.com\`, "google.com%2eevil.example", "google.com..", ".google.com", "google..com", "",
	"*.google.com", "*", "gооgle.com", "google。com", "\xff.com", "-google.com", "localhost", "a.localhost", "LOCALHOST.",
	"127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "0X7F.1", "2130706433", "017700000001", "127.0.0.1.", "127.0.0.256", "1.2.3", "127.0.0.01", "0", "0x", "a.1", "a.0x1",
	"::1", "::ffff:127.0.0.1", "fe80::1%eth0", "::ffff:1.2.3.4%x.google.com", "1.2.3.4%x.google.com", "[::1", "[google.com]", "[127.0.0.1]", "[fe80::1%eth0]", "[]",
	strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 126) + "com",
}

func socks(request ...byte) []byte { return append([]byte{5, 1, 0, 5, 1, 0}, request...) }

func named(name string) []byte { return append(append(socks(3, byte(len(name))), name...), 1, 187) }

func TestSOCKS5(t *testing.T) {
	a := netip.MustParseAddr
	for _, c := range []struct {
		in   []byte
		want Target
	}{
		{named("GitHub.com."), Target{Name: "github.com", Port: 443}},
		{socks(1, 127, 64, 0, 1, 0, 80), Target{Addr: a("127.64.0.1"), Port: 80}},
		{append(append(socks(4), a("2001:db8::1").AsSlice()...), 0, 22), Target{Addr: a("2001:db8::1"), Port: 22}},
		{append(append(socks(4), a("::ffff:169.254.169.254").AsSlice()...), 0, 80), Target{Addr: a("169.254.169.254"), Port: 80}},
		{append([]byte{5, 3, 2, 0, 1}, named("a.example")[3:]...), Target{Name: "a.example", Port: 443}},
	} {
		rw := &conn{Reader: strings.NewReader(string(c.in) + "next")}
		got, err := ReadSOCKS5(rw)
		rest, _ := io.ReadAll(rw.Reader)
		if err != nil || got != c.want || string(rest) != "next" || rw.String() != "\x05\x00" {
			t.Errorf("%x: %v, %v, rest %q, answered %x", c.in, got, err, rest, rw.Bytes())
		}
	}
	refused := map[string]struct {
		in     []byte
		answer string
	}{
		"SOCKS4":               {[]byte{4, 1, 0, 80, 1, 2, 3, 4, 0}, ""},
		"HTTP":                 {[]byte("CONNECT a:1 HTTP/1.1\r\n\r\n"), ""},
		"no method":            {[]byte{5, 0}, "\x05\xff"},
		"password":             {[]byte{5, 1, 2, 1, 1, 'a', 1, 'b'}, "\x05\xff"},
		"BIND":                 {append([]byte{5, 1, 0, 5, 2, 0}, named("a.example")[6:]...), "\x05\x00" + string(SOCKSReply(7))},
		"UDP":                  {append([]byte{5, 1, 0, 5, 3, 0}, named("a.example")[6:]...), "\x05\x00" + string(SOCKSReply(7))},
		"version":              {[]byte{5, 1, 0, 4, 1, 0, 1, 1, 2, 3, 4, 0, 80}, "\x05\x00" + string(SOCKSReply(1))},
		"reserved":             {[]byte{5, 1, 0, 5, 1, 1, 1, 1, 2, 3, 4, 0, 80}, "\x05\x00" + string(SOCKSReply(1))},
		"address type":         {socks(2, 1, 2, 3), "\x05\x00" + string(SOCKSReply(8))},
		"port 0":               {socks(1, 1, 2, 3, 4, 0, 0), "\x05\x00" + string(SOCKSReply(2))},
		"an address as a name": {named("127.0.0.1"), "\x05\x00" + string(SOCKSReply(2))},
		"cut":                  {named("a.example")[:10], "\x05\x00"},
		"nothing":              {nil, ""},
	}
	for _, n := range names {
		if len(n) < 256 {
			refused[fmt.Sprintf("name %q", n)] = struct {
				in     []byte
				answer string
			}{named(n), "\x05\x00" + string(SOCKSReply(2))}
		}
	}
	for what, c := range refused {
		rw := &conn{Reader: bytes.NewReader(c.in)}
		if got, err := ReadSOCKS5(rw); err == nil || got != (Target{}) || rw.String() != c.answer {
			t.Errorf("%s: %v, %v, answered %x", what, got, err, rw.Bytes())
		}
	}
}

func connect(text string) (Target, error) {
	return ReadConnect(bufio.NewReader(strings.NewReader(text)))
}

func TestConnect(t *testing.T) {
	a := netip.MustParseAddr
	for in, want := range map[string]Target{
		"CONNECT GitHub.com.:22 HTTP/1.1\r\nHost: github.com:22\r\n\r\n":                   {Name: "github.com", Port: 22},
		"CONNECT github.com:443 HTTP/1.0\r\n\r\n":                                          {Name: "github.com", Port: 443},
		"CONNECT github.com:443 HTTP/1.1\r\nHost: github.com\r\nContent-Length: 0\r\n\r\n": {Name: "github.com", Port: 443},
		"CONNECT 127.64.0.1:443 HTTP/1.1\r\nHost: 127.64.0.1:443\r\n\r\n":                  {Addr: a("127.64.0.1"), Port: 443},
		"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\r\n":            {Addr: a("2001:db8::1"), Port: 443},
		"CONNECT [::ffff:10.0.0.5]:443 HTTP/1.1\r\n\r\n":                                   {Addr: a("10.0.0.5"), Port: 443},
	} {
		r := bufio.NewReader(strings.NewReader(in + "next"))
		got, err := ReadConnect(r)
		if rest, _ := io.ReadAll(r); err != nil || got != want || string(rest) != "next" {
			t.Errorf("%q: %v, %v, rest %q", in, got, err, rest)
		}
	}
	refused := []string{
		"GET http://github.com/ HTTP/1.1\r\nHost: github.com\r\n\r\n",
		"CONNECT github.com HTTP/1.1\r\n\r\n", "CONNECT github.com: HTTP/1.1\r\n\r\n", "CONNECT github.com:0 HTTP/1.1\r\n\r\n", "CONNECT github.com:65979 HTTP/1.1\r\n\r\n",
		"CONNECT github.com:0443 HTTP/1.1\r\n\r\n", "CONNECT github.com:+443 HTTP/1.1\r\n\r\n", "CONNECT github.com:443:443 HTTP/1.1\r\n\r\n", "CONNECT github.com:443,evil.example:443 HTTP/1.1\r\n\r\n",
		"CONNECT :443 HTTP/1.1\r\n\r\n", "CONNECT http://github.com:443 HTTP/1.1\r\n\r\n", "CONNECT github.com:443/x HTTP/1.1\r\n\r\n",
		"CONNECT github.com:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", "CONNECT github.com:443 HTTP/1.1\r\nHost: github.com:22\r\n\r\n", "CONNECT github.com:443 HTTP/1.1\r\nHost:\r\n\r\n",
		"CONNECT github.com:443 HTTP/1.1\r\nHost: github.com\r\nHost: evil.example\r\n\r\n",
		"CONNECT github.com:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "CONNECT github.com:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "CONNECT github.com:443 HTTP/1.1\r\nUpgrade: h2c\r\n\r\n",
		"CONNECT github.com:443 HTTP/1.1\nHost: github.com\n\n", "CONNECT github.com:443 HTTP/1.1\r\n X: y\r\n\r\n", "CONNECT  github.com:443 HTTP/1.1\r\n\r\n", "CONNECT github.com:443\r\n\r\n",
		"CONNECT github.com:443 HTTP/2.0\r\n\r\n", "connect github.com:443 HTTP/1.1\r\n\r\n",
	}
	for _, n := range names {
		refused = append(refused, "CONNECT "+n+":443 HTTP/1.1\r\n\r\n", "CONNECT github.com:443 HTTP/1.1\r\nHost: "+n+":443\r\n\r\n")
	}
	for _, in := range refused {
		got, err := connect(in)
		var e *http1.Error
		if got != (Target{}) || !errors.As(err, &e) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	if _, err := connect("CONNECT github.com:443 HTTP/1.1\r\n"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

// check holds what every target is.
func check(t *testing.T, got Target) {
	t.Helper()
	if got.Port == 0 || got.Addr.IsValid() == (got.Name != "") || got.Addr.Is4In6() || got.Addr.Zone() != "" {
		t.Fatalf("%+v", got)
	}
	if strings.Trim(got.Name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		t.Fatalf("%q", got.Name)
	}
}

func FuzzSOCKS5(f *testing.F) {
	f.Add(named("a.example"))
	f.Add(socks(1, 1, 2, 3, 4, 0, 80))
	f.Fuzz(func(t *testing.T, in []byte) {
		if got, err := ReadSOCKS5(&conn{Reader: bytes.NewReader(in)}); err == nil {
			check(t, got)
		}
	})
}

func FuzzConnect(f *testing.F) {
	f.Add("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n")
	f.Add("CONNECT [::1]:443 HTTP/1.1\r\n\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		if got, err := connect(in); err == nil {
			check(t, got)
		}
	})
}
