package wire

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"agentjail.dev/runtime/spec/netrules"
)

type ext struct {
	typ  uint16
	body []byte
}

func u16(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }

func vec16(b ...byte) []byte { return append(u16(len(b)), b...) }

func sni(names ...string) ext {
	var list []byte
	for _, n := range names {
		list = append(append(list, 0), vec16([]byte(n)...)...)
	}
	return ext{0, vec16(list...)}
}

// message is a ClientHello with extensions.
func message(exts ...ext) []byte {
	b := append([]byte{3, 3}, make([]byte, 32)...)
	b = append(b, 0)             // session id
	b = append(b, 0, 2, 0x13, 1) // suites
	b = append(b, 1, 0)          // compression
	var list []byte
	for _, e := range exts {
		list = append(append(list, u16(int(e.typ))...), vec16(e.body...)...)
	}
	b = append(b, vec16(list...)...)
	return append([]byte{1, 0, byte(len(b) >> 8), byte(len(b))}, b...)
}

// records cuts a message into records of at most n bytes.
func records(msg []byte, n int) []byte {
	var out []byte
	for part := range slices.Chunk(msg, n) {
		out = append(append(out, 22, 3, 1), vec16(part...)...)
	}
	return out
}

func read(b []byte) (Hello, error) { return ReadHello(strings.NewReader(string(b))) }

func TestFragments(t *testing.T) {
	msg := message(sni("GitHub.com"), ext{16, vec16(append([]byte{2, 'h', '2', 8}, "http/1.1"...)...)}, ext{0x0a0a, nil})
	for _, n := range []int{1, 2, 3, 4, 5, 20, 1 << 14} {
		raw := records(msg, n)
		for _, r := range []io.Reader{strings.NewReader(string(raw) + "early"), iotest.OneByteReader(strings.NewReader(string(raw) + "early"))} {
			h, err := ReadHello(r)
			if err != nil || h.SNI != "github.com" || h.ECH || !slices.Equal(h.ALPN, []string{"h2", "http/1.1"}) || string(h.Raw) != string(raw) {
				t.Errorf("records of %d: %+v, %v", n, h, err)
			}
			if rest, _ := io.ReadAll(r); string(rest) != "early" {
				t.Errorf("records of %d: %q is left", n, rest)
			}
		}
	}
}

// TestRealClient: what crypto/tls sends is read.
func TestRealClient(t *testing.T) {
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(a, &tls.Config{ServerName: "github.com", NextProtos: []string{"h2"}}).Handshake()
	}()
	h, err := ReadHello(b)
	if err != nil || h.SNI != "github.com" || h.ECH || !slices.Equal(h.ALPN, []string{"h2"}) {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := b.Write(AccessDenied()); err != nil {
		t.Error(err)
	}
	b.Close()
	<-done
}

func TestAlert(t *testing.T) {
	a, b := net.Pipe()
	go func() {
		_, _ = ReadHello(b)
		_, _ = b.Write(AccessDenied())
		b.Close()
	}()
	if err := tls.Client(a, &tls.Config{ServerName: "github.com"}).Handshake(); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("%v", err)
	}
}

func TestRefused(t *testing.T) {
	good := message(sni("github.com"))
	cut := func(f func([]byte) []byte) []byte { return records(f(slices.Clone(good)), 1<<14) }
	for what, b := range map[string][]byte{
		"HTTP":                         []byte("GET / HTTP/1.1\r\nHost: github.com\r\n\r\n"),
		"ssh":                          []byte("SSH-2.0-OpenSSH\r\n"),
		"SSL 2":                        append([]byte{0x80, 0x2e, 1, 3, 1}, make([]byte, 64)...),
		"an alert first":               AccessDenied(),
		"an empty record":              append([]byte{22, 3, 1, 0, 0}, records(good, 100)...),
		"a record too long":            append([]byte{22, 3, 1, 0x40, 1}, make([]byte, 1<<15)...),
		"an alert between":             append(records(good, 10)[:15], AccessDenied()...),
		"a ServerHello":                cut(func(b []byte) []byte { b[0] = 2; return b }),
		"a message of 16 MB":           cut(func(b []byte) []byte { b[1] = 255; return b }),
		"cut":                          records(good, 1<<14)[:40],
		"a message behind it":          cut(func(b []byte) []byte { return append(b, b...) }),
		"a byte behind it":             cut(func(b []byte) []byte { return append(b, 0) }),
		"a byte behind the extensions": cut(func(b []byte) []byte { b[3]++; return append(b, 0) }),
		"session id too long":          cut(func(b []byte) []byte { b[38] = 33; return b }),
		"odd suites":                   cut(func(b []byte) []byte { b[40] = 3; return b }),
		"version 2":                    cut(func(b []byte) []byte { b[4] = 2; return b }),
		"two server_name":              records(message(sni("github.com"), sni("evil.example")), 100),
		"two equal server_name":        records(message(sni("github.com"), sni("github.com")), 100),
		"two names":                    records(message(sni("github.com", "evil.example")), 100),
		"no name in the list":          records(message(sni()), 100),
		"an empty name":                records(message(sni("")), 100),
		"another type of name":         records(message(ext{0, []byte{0, 4, 1, 0, 1, 'a'}}), 100),
		"a byte behind the list":       records(message(ext{0, append(sni("github.com").body, 0)}), 100),
		"a list too long":              records(message(ext{0, []byte{0, 9, 0, 0, 1, 'a'}}), 100),
		"NUL":                          records(message(sni("github.com\x00.evil.example")), 100),
		"NUL before":                   records(message(sni("evil.example\x00.github.com")), 100),
		"CRLF":                         records(message(sni("github.com\r\n")), 100),
		"trailing dot":                 records(message(sni("github.com.")), 100),
		"address":                      records(message(sni("169.254.169.254")), 100),
		"short address":                records(message(sni("0x7f.1")), 100),
		"IPv6 address":                 records(message(sni("::1")), 100),
		"UTF-8":                        records(message(sni("gіthub.com")), 100),
		"long name":                    records(message(sni(strings.Repeat("a.", 200)+"com")), 100),
		"ALPN twice":                   records(message(ext{16, []byte{0, 3, 2, 'h', '2'}}, ext{16, []byte{0, 3, 2, 'h', '2'}}), 100),
		"an empty protocol":            records(message(ext{16, []byte{0, 1, 0}}), 100),
		"many protocols":               records(message(ext{16, vec16([]byte(strings.Repeat("\x01a", 20))...)}), 100),
		"too long":                     records(message(sni("github.com"), ext{21, make([]byte, helloLimit)}), 1000),
		"too long in small records":    records(message(sni("github.com"), ext{21, make([]byte, 4000)}), 1),
	} {
		h, err := read(b)
		if err == nil {
			t.Errorf("%s: passed as %q", what, h.SNI)
		}
		if len(h.Raw) > helloLimit || !strings.HasPrefix(string(b), string(h.Raw)) {
			t.Errorf("%s: %d bytes read", what, len(h.Raw))
		}
	}
	long := message(sni("github.com"), ext{21, make([]byte, helloLimit-74)})
	if h, err := read(records(long, 6000)); len(long) > helloLimit || err == nil || len(h.Raw) > helloLimit {
		t.Errorf("a message of %d bytes that its records make longer than the limit: %d bytes read, %v", len(long), len(h.Raw), err)
	}
	if _, err := ReadHello(io.MultiReader(strings.NewReader(string(cut(func(b []byte) []byte { return append(b, 0) }))), iotest.ErrReader(errors.New("read on")))); err == nil || strings.Contains(err.Error(), "read on") {
		t.Errorf("a byte behind the message is found late: %v", err)
	}
	huge := io.MultiReader(strings.NewReader("\x16\x03\x01\x00\x04\x01\xff\xff\xff"), iotest.ErrReader(errors.New("read on")))
	if _, err := ReadHello(huge); err == nil || strings.Contains(err.Error(), "read on") {
		t.Errorf("a message that is too long is found late: %v", err)
	}
	var many []ext
	for i := range 65 {
		many = append(many, ext{uint16(0x1000 + i), nil})
	}
	if _, err := read(records(message(many...), 100)); err == nil {
		t.Error("no limit of extensions")
	}
	if _, err := read([]byte("GET / HTTP/1.1\r\n")); !errors.Is(err, errNotTLS) {
		t.Errorf("%v", err)
	}
}

func TestCheck(t *testing.T) {
	rule := func(text string) *netrules.Rule {
		r, err := netrules.ParseEntry(text, false)
		if err != nil {
			t.Fatal(err)
		}
		return &r
	}
	ech := ext{0xfe0d, make([]byte, 200)}
	for _, c := range []struct {
		what string
		msg  []byte
		name string
		rule *netrules.Rule
		ok   bool
	}{
		{"its name", message(sni("github.com")), "github.com", rule("github.com"), true},
		{"its name in capitals", message(sni("GITHUB.COM")), "github.com", rule("github.com"), true},
		{"an unknown extension", message(sni("github.com"), ext{0xabcd, []byte("x")}), "github.com", rule("github.com"), true},
		{"below a wildcard", message(sni("a.b.example")), "a.b.example", rule("*.b.example"), true},
		{"another name of the wildcard", message(sni("c.b.example")), "a.b.example", rule("*.b.example"), false},
		{"another name", message(sni("evil.example")), "github.com", rule("github.com"), false},
		{"another allowed name", message(sni("pkg.example.net")), "github.com", rule("github.com"), false},
		{"no name", message(), "github.com", rule("github.com"), false},
		{"ECH", message(sni("github.com"), ech), "github.com", rule("github.com"), false},
		{"ECH alone", message(ech), "github.com", rule("github.com ech"), false},
		{"ECH allowed", message(sni("github.com"), ech), "github.com", rule("github.com ech"), true},
		{"ECH allowed, another name", message(sni("evil.example"), ech), "github.com", rule("github.com ech"), false},
		{"a draft of ECH", message(sni("github.com"), ext{0xfe0a, nil}), "github.com", rule("github.com"), false},
		{"ESNI", message(sni("github.com"), ext{0xffce, nil}), "github.com", rule("github.com"), false},
		{"anything", message(sni("evil.example"), ech), "github.com", rule("github.com tls=any"), true},
		{"an address", message(), "", &netrules.Rule{Addr: netip.MustParseAddr("10.0.0.5")}, true},
		{"an address and a name", message(sni("evil.example")), "", &netrules.Rule{Addr: netip.MustParseAddr("10.0.0.5")}, false},
		{"no rule", message(sni("github.com")), "github.com", nil, false},
	} {
		h, err := read(records(c.msg, 7))
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		} else if err := CheckHello(h, c.name, c.rule); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(records(message(sni("github.com"), ext{16, []byte{0, 3, 2, 'h', '2'}}), 20))
	f.Add(records(message(sni("a.example"), ext{0xfe0d, []byte{1}}), 1000))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := read(b)
		if len(h.Raw) > helloLimit || !strings.HasPrefix(string(b), string(h.Raw)) {
			t.Fatalf("%d bytes read", len(h.Raw))
		}
		if err != nil {
			return
		}
		// What passes means the same to a server: crypto/tls.
		a, c := net.Pipe()
		got := "-"
		done := make(chan struct{})
		go func() {
			defer close(done)
			s := tls.Server(a, &tls.Config{GetConfigForClient: func(i *tls.ClientHelloInfo) (*tls.Config, error) {
				got = i.ServerName
				return nil, errors.New("read")
			}})
			_ = s.Handshake()
			a.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, _ = c.Write(h.Raw)
		c.Close()
		<-done
		if got != "-" && !strings.EqualFold(got, h.SNI) {
			t.Fatalf("a server reads %q, Read %q", got, h.SNI)
		}
	})
}
