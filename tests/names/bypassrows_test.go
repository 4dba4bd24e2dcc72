package names

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// An attempt is one try to get past the rules. Whatever it must not get has the word "bypass" in it, where it can have a word: what
// arrives outside is searched for that.
type attempt struct {
	what string
	do   string // the kind of client: a key of kinds
	at   string // whom it turns to
	say  string // what it states first
	// most is how many answers it may get: to what stands before the fault, which is allowed.
	most int
}

// refusals is the table. Each of its rows is refused.
func refusals() []attempt {
	var out []attempt
	for _, group := range [][]attempt{
		notations(), names(), ports(), traps(), tunnels(), proxyBytes(), httpBytes(), helloBytes(), directly(), reuse(), calls(),
	} {
		out = append(out, group...)
	}
	return out
}

// addresses are IP addresses as programs and attackers write them. None is granted; some are of servers that answer.
var addresses = []string{
	serverAddr, "84215050", "0x0505050a", "0x5.0x5.0x5.0xa", "05.05.05.012", "5.328970", "5.5.1290", "005.005.005.010", serverAddr + ".", " " + serverAddr, serverAddr + " ",
	serverAddr + "%00", serverAddr + "\t", "5.5.5.10/24", "5.5.5.266", "+5.5.5.10", "5,5,5,10", "5。5。5。10", "５.５.５.１０",
	"::ffff:5.5.5.10", "[::ffff:5.5.5.10]", "[::5.5.5.10]", "[64:ff9b::505:50a]", "[64:ff9b:1::505:50a]", "[2002:505:50a::1]", "[2001:0:505:50a::]", "[::ffff:0:505:50a]", "[::ffff:505:50a%1]",
	"[2a05:5::10]", "[2a05:5::10%25wan]", "[2a05:5::10", "2a05:5::10]", "[]", "[5.5.5.10]",
	"0", "127.1", "0x7f.1", "017700000001", "2130706433", "0.0.0.0", "[::1]", "[::]", "[fe80::1%lo]", "127.0.0.11", "localhost", "localhost.", "a.localhost",
	"169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "169.254.43518", "10.5.5.10", hostAddr, hostSecond, "[2a05:5::2]",
}

// notations: an address is no name, in whatever form, and none is granted.
func notations() []attempt {
	var out []attempt
	for _, a := range addresses {
		out = append(out,
			attempt{what: "SOCKS5 to the name " + a, do: "socks", say: socksName(a, 443)},
			attempt{what: "CONNECT to " + a, do: "connect", say: connectTo(a + ":443")},
			attempt{what: "a look-up of " + a, do: "look", at: a},
			attempt{what: "Host: " + a, do: "talk", at: "api.example.test:80", say: "GET /bypass HTTP/1.1\r\nHost: " + a + "\r\n\r\n"},
		)
	}
	for _, a := range []string{"\x05\x05\x05\x0a", "\x7f\x00\x00\x01", "\xa9\xfe\xa9\xfe", "\x00\x00\x00\x00", "\x0a\x05\x05\x0a", "\x05\x05\x05\x02", "\x7f\x40\x03\xe9"} {
		out = append(out, attempt{what: fmt.Sprintf("SOCKS5 to the address %x", a), do: "socks", say: "\x05\x01\x00\x01" + a + "\x01\xbb"})
	}
	for _, a := range []string{"00000000000000000000ffff0505050a", "00000000000000000000ffff7f000001", "0064ff9b00000000000000000505050a", "2002050505" + "0a00000000000000000000", "00000000000000000000000000000001", "2a050005000000000000000000000010"} {
		out = append(out, attempt{what: "SOCKS5 to the IPv6 address " + a, do: "socks", say: "\x05\x01\x00\x04" + unhex(a) + "\x01\xbb"})
	}
	return out
}

// wrongNames are names without a rule, some of which other programs might take for one that has.
var wrongNames = []string{
	"bypass.example.test", "bypass.api.example.test", "api.example.test.bypass.test", "apiexample.test", "xapi.example.test", "api.example.tes", "api.example.testt", "example.test",
	"wild.example.test", "wild.example.test.", "bypasswild.example.test", "a.wild.example.test.bypass.test", "*.wild.example.test", "api.example.test..", ".api.example.test", "api..example.test",
	"api.example.test\x00", "api.example.test\x00.bypass.test", "bypass.test\x00.wild.example.test", "bypass.test\r\n.wild.example.test", "bypass.test#.wild.example.test", "bypass.test/.wild.example.test",
	"bypass.test?.wild.example.test", "bypass.test\\.wild.example.test", "bypass.test@api.example.test", "bypass.test:80@api.example.test", "bypass.test%00.wild.example.test", "bypass.test%2e.wild.example.test", "bypass test.wild.example.test",
	"-bypass.wild.example.test", "bypass-.wild.example.test", "b\u00fdpass.wild.example.test", "xn--bypass-\u00fd.wild.example.test", "\u212a.wild.example.test", "api.example.te\u017ft", "api\u3002example.test", "api.example.test\u200b", "\u0430pi.example.test", "xn--pi-7kc.example.test",
	strings.Repeat("b", 64) + ".wild.example.test", strings.Repeat("bypass.", 35) + "wild.example.test", strings.Repeat("b", 255),
	"", ".", "api.example.test.host.example.test", "API.EXAMPLE.TEST.BYPASS.TEST", "denied.wild.example.test",
}

// names: only names of the rules, and those only in the one form that every resolver reads alike.
func names() []attempt {
	var out []attempt
	for _, n := range wrongNames {
		if len(n) < 256 {
			out = append(out, attempt{what: fmt.Sprintf("SOCKS5 to the name %.60q", n), do: "socks", say: socksName(n, 443)})
		}
		out = append(out, attempt{what: fmt.Sprintf("CONNECT to the name %.60q", n), do: "connect", say: connectTo(n + ":443")})
	}
	for _, n := range wrongNames[:12] {
		out = append(out,
			attempt{what: "a look-up of " + n, do: "look", at: n},
			attempt{what: "TLS in the name " + n, do: "talk", at: "api.example.test:443", say: hello(sni(n))},
			attempt{what: "a request for " + n, do: "talk", at: "api.example.test:80", say: "GET /bypass HTTP/1.1\r\nHost: " + n + "\r\n\r\n"},
		)
	}
	return out
}

// ports: those of the rules only.
func ports() []attempt {
	var out []attempt
	for _, p := range []int{1, 21, 25, 53, 81, 853, 3128, 8080, 8443, 65535} {
		at := fmt.Sprintf("api.example.test:%d", p)
		out = append(out,
			attempt{what: "a connection to " + at, do: "talk", at: at, say: "GET /bypass HTTP/1.0\r\n\r\n"},
			attempt{what: "CONNECT to " + at, do: "connect", say: connectTo(at)},
			attempt{what: "SOCKS5 to " + at, do: "socks", say: socksName("api.example.test", p)},
		)
	}
	for _, p := range []string{"", "0", "-1", "65536", "65979", "+443", "0443", "443 ", "0x1bb", "https", "443:443", "4.43e2", "\u0664\u0664\u0663"} {
		out = append(out, attempt{what: fmt.Sprintf("CONNECT to the port %q", p), do: "connect", say: connectTo("api.example.test:" + p)})
	}
	return append(out, attempt{what: "CONNECT without a port", do: "connect", say: connectTo("api.example.test")},
		attempt{what: "SOCKS5 to port 0", do: "socks", say: socksName("api.example.test", 0)})
}

// traps: names of the rules that their name servers lead to where no name may lead.
func traps() []attempt {
	var out []attempt
	for label := range trapZone {
		name := label + ".trap.example.test"
		out = append(out,
			attempt{what: "a name that leads to " + label, do: "talk", at: name + ":22", say: "bypass"},
			attempt{what: "CONNECT to a name that leads to " + label, do: "talk by CONNECT", at: name + ":22", say: "bypass"},
			attempt{what: "SOCKS5 to a name that leads to " + label, do: "talk by SOCKS5", at: name + ":22", say: "bypass"},
		)
	}
	for range 4 {
		out = append(out, attempt{what: "a name whose answers change", do: "talk", at: "rebind.trap.example.test:22", say: "bypass"})
	}
	return out
}

// tunnels: questions for names carry nothing out.
func tunnels() []attempt {
	var out []attempt
	const secret = "bypass.secret.tunnel.test."
	for _, q := range []struct {
		what  string
		query string
	}{
		{"A", question(secret, 1, 1)},
		{"NS", question(secret, 2, 1)},
		{"CNAME", question(secret, 5, 1)},
		{"NULL", question(secret, 10, 1)},
		{"PTR", question(secret, 12, 1)},
		{"MX", question(secret, 15, 1)},
		{"TXT", question(secret, 16, 1)},
		{"AAAA", question(secret, 28, 1)},
		{"SRV", question(secret, 33, 1)},
		{"SVCB", question(secret, 64, 1)},
		{"HTTPS", question(secret, 65, 1)},
		{"ANY", question(secret, 255, 1)},
		{"AXFR", question("example.test.", 252, 1)},
		{"a private type", question(secret, 65399, 1)},
		{"class CHAOS", question("version.bind.", 16, 3)},
		{"class ANY", question(secret, 1, 255)},
		{"TXT of an allowed name", question("api.example.test.", 16, 1)},
		{"HTTPS of an allowed name", question("api.example.test.", 65, 1)},
		{"AAAA of an allowed name", question("api.example.test.", 28, 1)},
		{"an allowed name in class CHAOS", question("api.example.test.", 1, 3)},
		{"long labels", question(strings.Repeat(strings.Repeat("s", 57)+"bypass.", 3)+"t.test.", 16, 1)},
		{"a label with a dot", dnsHeader(0, 1) + "\x10bypass.secret.com\x04test\x00" + "\x00\x01\x00\x01"},
		{"a label with a NUL", dnsHeader(0, 1) + "\x07bypass\x00\x04test\x00" + "\x00\x01\x00\x01"},
		{"bytes above 127", dnsHeader(0, 1) + "\x08bypass\xff\xfe\x04test\x00" + "\x00\x01\x00\x01"},
		{"an address by PTR", question("10.5.5.5.in-addr.arpa.", 12, 1)},
		{"IQUERY", dnsHeader(1<<11, 1) + secretBody},
		{"STATUS", dnsHeader(2<<11, 1) + secretBody},
		{"NOTIFY", dnsHeader(4<<11, 1) + secretBody},
		{"UPDATE", dnsHeader(5<<11, 1) + secretBody},
		{"opcode 15", dnsHeader(15<<11, 1) + secretBody},
		{"a response", dnsHeader(1<<15, 1) + secretBody},
		{"two questions", dnsHeader(0, 2) + secretBody + secretBody},
		{"65535 questions", dnsHeader(0, 65535) + secretBody},
		{"no question", dnsHeader(0, 0)},
		{"a question behind an allowed one", dnsHeader(0, 2) + question("api.example.test.", 1, 1)[12:] + secretBody},
		{"a name that points to itself", dnsHeader(0, 1) + "\xc0\x0c\x00\x01\x00\x01"},
		{"a name that points forward", dnsHeader(0, 1) + "\xc0\x10\x00\x01\x00\x01\x06bypass\x00"},
		{"a loop of two", dnsHeader(0, 1) + "\xc0\x0e\xc0\x0c\x00\x01\x00\x01"},
		{"a label of 64 bytes and more", dnsHeader(0, 1) + "\x7fbypass\x00\x00\x01\x00\x01"},
		{"an extended label", dnsHeader(0, 1) + "\x41\x06bypass\x00\x00\x01\x00\x01"},
		{"a name without an end", dnsHeader(0, 1) + "\x06bypass"},
		{"half a header", "\x12\x34\x01"},
		{"nothing", ""},
		{"no type", dnsHeader(0, 1) + "\x06bypass\x00"},
		{"a name of 300 bytes", dnsHeader(0, 1) + strings.Repeat("\x06bypass", 43) + "\x00\x00\x10\x00\x01"},
		{"an answer in the question", dnsHeader(0, 1)[:6] + "\x00\x01\x00\x00\x00\x00" + secretBody + "\x06bypass\x00\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04\x05\x05\x05\x0a"},
	} {
		out = append(out, attempt{what: "a question: " + q.what, do: "query", say: q.query}, attempt{what: "a question over TCP: " + q.what, do: "query over TCP", say: framed(q.query)})
	}
	return append(out,
		attempt{what: "DNS over TCP: a length without a question", do: "query over TCP", say: "\xff\xffbypass"},
		attempt{what: "DNS over TCP: HTTP", do: "query over TCP", say: "GET /bypass HTTP/1.1\r\nHost: api.example.test\r\n\r\n"},
		attempt{what: "DNS over TCP: a second question", do: "query over TCP", say: framed(question("none.example.test.", 1, 1)) + framed(question(secret, 16, 1))},
		attempt{what: "DNS over HTTPS, by CONNECT", do: "connect", say: connectTo("bypass-doh.example.test:443")},
		attempt{what: "DNS over TLS", do: "talk", at: "api.example.test:853", say: hello(sni("api.example.test"))},
		attempt{what: "a name server outside", do: "udp", at: dnsAddr + ":53", say: question(secret, 1, 1)},
		attempt{what: "a name server outside, by TCP", do: "talk", at: dnsAddr + ":53", say: framed(question(secret, 1, 1))},
		attempt{what: "a name server outside, by SOCKS5", do: "socks", say: "\x05\x01\x00\x01\x05\x05\x05\x35\x00\x35"},
		attempt{what: "Docker's name server", do: "udp", at: "127.0.0.11:53", say: question(secret, 1, 1)},
		attempt{what: "systemd's name server", do: "udp", at: "127.0.0.53:53", say: question(secret, 1, 1)},
		attempt{what: "multicast DNS", do: "udp", at: "224.0.0.251:5353", say: question("bypass.local.", 1, 1)},
		attempt{what: "LLMNR", do: "udp", at: "224.0.0.252:5355", say: question("bypass.", 1, 1)},
	)
}

// proxyBytes: what is no request of SOCKS5 or CONNECT, or one of another kind.
func proxyBytes() []attempt {
	socks := func(what, say string) attempt { return attempt{what: "SOCKS: " + what, do: "socks raw", say: say} }
	to := "\x03\x10api.example.test\x01\xbb"
	out := []attempt{
		socks("version 4", "\x04\x01\x01\xbb\x05\x05\x05\x0abypass\x00"), socks("version 4a", "\x04\x01\x01\xbb\x00\x00\x00\x01bypass\x00api.example.test\x00"),
		socks("BIND", "\x05\x01\x00\x05\x02\x00"+to), socks("UDP ASSOCIATE", "\x05\x01\x00\x05\x03\x00"+to), socks("command 0", "\x05\x01\x00\x05\x00\x00"+to), socks("RESOLVE of Tor", "\x05\x01\x00\x05\xf0\x00"+to),
		socks("a password", "\x05\x01\x02\x01\x06bypass\x06bypass\x05\x01\x00"+to), socks("no method", "\x05\x00\x05\x01\x00"+to), socks("version 6 in the request", "\x05\x01\x00\x06\x01\x00"+to), socks("reserved not 0", "\x05\x01\x00\x05\x01\x01"+to),
		socks("address type 2", "\x05\x01\x00\x05\x01\x00\x02\x05\x05\x05\x0a\x01\xbb"), socks("address type 255", "\x05\x01\x00\x05\x01\x00\xff\x05\x05\x05\x0a\x01\xbb"), socks("a name that is cut off", "\x05\x01\x00\x05\x01\x00\x03\xffapi.example.test"),
		socks("HTTP", "GET http://bypass.example.test/ HTTP/1.1\r\n\r\n"),
	}
	for _, c := range []struct{ what, say string }{
		{"GET of a URL", "GET http://api.example.test/bypass HTTP/1.1\r\nHost: api.example.test\r\n\r\n"},
		{"connect in small letters", "connect api.example.test:443 HTTP/1.1\r\n\r\n"},
		{"a Host for another", "CONNECT api.example.test:443 HTTP/1.1\r\nHost: bypass.example.test\r\n\r\n"},
		{"two Hosts", "CONNECT api.example.test:443 HTTP/1.1\r\nHost: api.example.test\r\nHost: bypass.example.test\r\n\r\n"},
		{"a Host of another port", "CONNECT api.example.test:443 HTTP/1.1\r\nHost: api.example.test:22\r\n\r\n"},
		{"LF lines", "CONNECT api.example.test:443 HTTP/1.1\nHost: api.example.test:443\n\n"},
		{"a NUL in the line", "CONNECT api.example.test\x00:443 HTTP/1.1\r\n\r\n"},
		{"a CR in the line", "CONNECT api.example.test\r:443 HTTP/1.1\r\n\r\n"},
		{"a TAB", "CONNECT\tapi.example.test:443\tHTTP/1.1\r\n\r\n"},
		{"two spaces", "CONNECT  api.example.test:443 HTTP/1.1\r\n\r\n"},
		{"HTTP/2.0", "CONNECT api.example.test:443 HTTP/2.0\r\n\r\n"},
		{"HTTP/0.9", "CONNECT api.example.test:443\r\n\r\n"},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		{"a URL", connectTo("http://api.example.test:443")},
		{"a user", connectTo("bypass@api.example.test:443")},
		{"a path", connectTo("api.example.test:443/bypass")},
		{"a body", "CONNECT api.example.test:443 HTTP/1.1\r\nContent-Length: 6\r\n\r\nbypass"},
		{"chunks", "CONNECT api.example.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"data before the answer", "CONNECT api.example.test:443 HTTP/1.1\r\n\r\nbypass"},
		{"an upgrade", "CONNECT api.example.test:443 HTTP/1.1\r\nUpgrade: connect-udp\r\n\r\n"},
		{"a continued line", "CONNECT api.example.test:443 HTTP/1.1\r\nHost: api.example.test\r\n bypass\r\n\r\n"},
		{"a head of 70 KB", "CONNECT api.example.test:443 HTTP/1.1\r\nX: " + strings.Repeat("bypass", 12000) + "\r\n\r\n"},
		{"200 fields", "CONNECT api.example.test:443 HTTP/1.1\r\n" + strings.Repeat("X: bypass\r\n", 200) + "\r\n"},
	} {
		out = append(out, attempt{what: "CONNECT: " + c.what, do: "connect", say: c.say})
	}
	return out
}

// httpBytes: requests that a server could read otherwise than the helper, and for whom else.
func httpBytes() []attempt {
	const h = "Host: api.example.test\r\n"
	const second = "GET /bypass HTTP/1.1\r\nHost: bypass.example.test\r\n\r\n"
	var out []attempt
	for _, c := range []struct {
		what, say string
		most      int
	}{
		{"no Host", "GET /bypass HTTP/1.1\r\n\r\n", 0},
		{"no Host in HTTP/1.0", "GET /bypass HTTP/1.0\r\n\r\n", 0},
		{"an empty Host", "GET /bypass HTTP/1.1\r\nHost:\r\n\r\n", 0},
		{"two Hosts", "GET /bypass HTTP/1.1\r\n" + h + "Host: bypass.example.test\r\n\r\n", 0},
		{"the same Host twice", "GET /bypass HTTP/1.1\r\n" + h + h + "\r\n", 0},
		{"two names in a Host", "GET /bypass HTTP/1.1\r\nHost: api.example.test, bypass.example.test\r\n\r\n", 0},
		{"a Host of another port", "GET /bypass HTTP/1.1\r\nHost: api.example.test:8080\r\n\r\n", 0},
		{"a Host with a user", "GET /bypass HTTP/1.1\r\nHost: bypass@api.example.test\r\n\r\n", 0},
		{"a space before the colon", "GET /bypass HTTP/1.1\r\nHost : bypass.example.test\r\n" + h + "\r\n", 0},
		{"a space before Host", "GET /bypass HTTP/1.1\r\n Host: bypass.example.test\r\n" + h + "\r\n", 0},
		{"a continued Host", "GET /bypass HTTP/1.1\r\nHost: api.example.test\r\n\tbypass.example.test\r\n\r\n", 0},
		{"a NUL in the Host", "GET /bypass HTTP/1.1\r\nHost: api.example.test\x00bypass\r\n\r\n", 0},
		{"H_ost", "GET /bypass HTTP/1.1\r\nContent_Length: 5\r\n" + h + "\r\n", 0},
		{"a URL of another", "GET http://bypass.example.test/ HTTP/1.1\r\n" + h + "\r\n", 0},
		{"a URL of the name, a Host of another", "GET http://api.example.test/bypass HTTP/1.1\r\nHost: bypass.example.test\r\n\r\n", 0},
		{"https in a URL", "GET https://api.example.test/bypass HTTP/1.1\r\n" + h + "\r\n", 0},
		{"a URL with a user", "GET http://api.example.test@bypass.example.test/ HTTP/1.1\r\n" + h + "\r\n", 0},
		{"a URL with a backslash", "GET http://bypass.example.test\\@api.example.test/ HTTP/1.1\r\n" + h + "\r\n", 0},
		{"a target without a path", "GET bypass.example.test HTTP/1.1\r\n" + h + "\r\n", 0},
		{"CONNECT", "CONNECT bypass.example.test:443 HTTP/1.1\r\n" + h + "\r\n", 0},
		{"CONNECT to itself", "CONNECT api.example.test:80 HTTP/1.1\r\n" + h + "\r\nbypass", 0},
		{"TRACE", "TRACE /bypass HTTP/1.1\r\n" + h + "\r\n", 0},
		{"TRACK", "TRACK /bypass HTTP/1.1\r\n" + h + "\r\n", 0},
		{"LF lines", "GET /bypass HTTP/1.1\nHost: api.example.test\n\n", 0},
		{"a bare CR", "GET /bypass HTTP/1.1\r\n" + h + "X: a\rHost: bypass.example.test\r\n\r\n", 0},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nbypass", 0},
		{"HTTP/0.9", "GET /bypass\r\n", 0},
		{"HTTP/1.2", "GET /bypass HTTP/1.2\r\n" + h + "\r\n", 0},
		{"three spaces", "GET  /bypass  HTTP/1.1\r\n" + h + "\r\n", 0},
		{"a space in the target", "GET /bypass x HTTP/1.1\r\n" + h + "\r\n", 0},
		{"TLS on port 80", hello(sni("api.example.test")), 0},
		{"SSH on port 80", "SSH-2.0-bypass\r\n", 0},
		{"SOCKS5 on port 80", "\x05\x01\x00", 0},
		{"nothing", "", 0},
		{"Content-Length and chunked", "POST /bypass HTTP/1.1\r\n" + h + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second, 0},
		{"two Content-Lengths", "POST /bypass HTTP/1.1\r\n" + h + "Content-Length: 0\r\nContent-Length: 51\r\n\r\n" + second, 0},
		{"a list of lengths", "POST /bypass HTTP/1.1\r\n" + h + "Content-Length: 0, 51\r\n\r\n" + second, 0},
		{"a signed length", "POST /bypass HTTP/1.1\r\n" + h + "Content-Length: +0\r\n\r\n" + second, 0},
		{"a negative length", "POST /bypass HTTP/1.1\r\n" + h + "Content-Length: -1\r\n\r\n" + second, 0},
		{"a hexadecimal length", "POST /bypass HTTP/1.1\r\n" + h + "Content-Length: 0x33\r\n\r\n" + second, 0},
		{"gzip, chunked", "POST /bypass HTTP/1.1\r\n" + h + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 0},
		{"xchunked", "POST /bypass HTTP/1.1\r\n" + h + "Transfer-Encoding: xchunked\r\n\r\n" + second, 0},
		{"chunked twice", "POST /bypass HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0},
		{"chunked in HTTP/1.0", "POST /bypass HTTP/1.0\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second, 0},
		{"Transfer_Encoding", "POST /bypass HTTP/1.1\r\n" + h + "Transfer_Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + second, 0},
		{"a vertical tab", "POST /bypass HTTP/1.1\r\n" + h + "Transfer-Encoding:\x0bchunked\r\n\r\n" + second, 0},
		// The first request passes, what comes after it does not.
		{"a second request", "GET / HTTP/1.1\r\n" + h + "\r\n" + second, 1},
		{"a second request in HTTP/1.0", "GET / HTTP/1.0\r\n" + h + "Connection: keep-alive\r\n\r\n" + second, 1},
		{"a third request", "GET / HTTP/1.1\r\n" + h + "\r\nGET / HTTP/1.1\r\n" + h + "\r\n" + second, 2},
		{"a second request without Host", "GET / HTTP/1.1\r\n" + h + "\r\nGET /bypass HTTP/1.1\r\n\r\n", 1},
		{"a second request by a URL", "GET / HTTP/1.1\r\n" + h + "\r\nGET http://bypass.example.test/ HTTP/1.1\r\n" + h + "\r\n", 1},
		{"CONNECT after a request", "GET / HTTP/1.1\r\n" + h + "\r\nCONNECT bypass.example.test:443 HTTP/1.1\r\n" + h + "\r\n", 1},
		{"a request behind a body", "POST / HTTP/1.1\r\n" + h + "Content-Length: 2\r\n\r\nab" + second, 1},
		{"a request behind chunks", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n" + second, 1},
		{"a request in a chunk's extension", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n2;\nbypass\r\nab\r\n0\r\n\r\n", 1},
		{"a chunk longer than its size", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n1\r\nabypass\r\n0\r\n\r\n", 1},
		{"a chunk of no number", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\nbypass\r\n", 1},
		{"a chunk of -1", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n-1\r\nbypass", 1},
		{"a chunk of 2^64", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nbypass", 1},
		{"a chunk of 0x2", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n0x2\r\nab\r\n0\r\n\r\n" + second, 1},
		{"chunks with LF", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n2\nab\n0\n\n" + second, 1},
		{"a Host among the trailers", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n0\r\nHost: bypass.example.test\r\n\r\n", 1},
		{"an upgrade to h2c", "GET / HTTP/1.1\r\n" + h + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: bypass\r\n\r\n", 1},
		{"an upgrade that is not agreed to", "GET / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + second, 1},
		{"Connection: Host", "GET / HTTP/1.1\r\n" + h + "Connection: Host\r\n\r\n" + second, 1},
		{"an upgrade to TLS", "OPTIONS * HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n" + hello(sni("bypass.example.test")), 1},
	} {
		out = append(out, attempt{what: "HTTP: " + c.what, do: "talk", at: "api.example.test:80", say: c.say, most: c.most})
		if c.most > 0 {
			out = append(out, attempt{what: "HTTP by SOCKS5: " + c.what, do: "talk by SOCKS5", at: "api.example.test:80", say: c.say, most: c.most})
		}
	}
	return out
}

// helloBytes: what is no ClientHello in the name alone.
func helloBytes() []attempt {
	var out []attempt
	ok := sni("api.example.test")
	for _, c := range []struct{ what, say string }{
		{"no server name", hello("")},
		{"another name", hello(sni("bypass.example.test"))},
		{"a name below", hello(sni("bypass.api.example.test"))},
		{"a trailing dot", hello(sni("api.example.test."))},
		{"a NUL behind", hello(sni("api.example.test\x00bypass"))},
		{"an empty name", hello(sni(""))},
		{"an address", hello(sni(serverAddr))},
		{"another letter", hello(sni("ap\u0456.example.test"))},
		{"two names in the list", hello(extension(0, vec(2, "\x00"+vec(2, "api.example.test")+"\x00"+vec(2, "bypass.example.test"))))},
		{"two lists, another first", hello(sni("bypass.example.test") + ok)},
		{"two lists, another last", hello(ok + sni("bypass.example.test"))},
		{"the same twice", hello(ok + ok)},
		{"a name of another type", hello(extension(0, vec(2, "\x01"+vec(2, "api.example.test"))))},
		{"bytes behind the name", hello(extension(0, vec(2, "\x00"+vec(2, "api.example.test"))+"bypass"))},
		{"an encrypted ClientHello", hello(ok + extension(0xfe0d, "\x00\x00\x01\x00\x01\x00\x00\x20"+strings.Repeat("b", 32)+"\x00\x06bypass"))},
		{"a draft of it", hello(ok + extension(0xfe09, "bypass"))},
		{"an encrypted server name", hello(ok + extension(0xffce, "bypass"))},
		{"an extension that is too long", hello(extension(0, vec(2, "\x00"+vec(2, "api.example.test")))[:8] + "bypass")},
		{"bytes behind the extensions", tlsRecord(message(ok) + "bypass")},
		{"a ServerHello", tlsRecord("\x02" + message(ok)[1:])},
		{"an alert first", "\x15\x03\x01\x00\x02\x01\x00" + hello(ok)},
		{"application data first", "\x17\x03\x03\x00\x06bypass" + hello(ok)},
		{"SSL 2", "\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10bypass" + strings.Repeat("\x00", 32)},
		{"an empty record", "\x16\x03\x01\x00\x00" + hello(ok)},
		{"a record of 65535 bytes", "\x16\x03\x01\xff\xff" + message(ok)},
		{"a hello of 16 MB", "\x16\x03\x01\x00\x0c\x01\xff\xff\xff\x03\x03bypass"},
		{"a hello without an end", hello(ok)[:40]},
		{"another version", "\x16\x02\x00" + hello(ok)[3:]},
		{"plain HTTP", "GET /bypass HTTP/1.1\r\nHost: api.example.test\r\n\r\n"},
		{"SSH", "SSH-2.0-bypass\r\n"},
		{"nothing", ""},
		{"a NUL", "\x00"},
		{"WireGuard", "\x01\x00\x00\x00bypass"},
		{"a PROXY line", "PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" + hello(ok)},
		{"version 2 of it", "\r\n\r\n\x00\r\nQUIT\n\x20\x11\x00\x00" + hello(ok)},
		{"STARTTLS", "STARTTLS\r\n" + hello(ok)},
		{"QUIC's first packet", "\xc3\x00\x00\x00\x01\x08bypassby\x00\x00\x41\x00"},
	} {
		out = append(out, attempt{what: "TLS: " + c.what, do: "talk", at: "api.example.test:443", say: c.say})
	}
	for _, by := range []string{"talk by CONNECT", "talk by SOCKS5"} {
		out = append(out,
			attempt{what: "fronting: " + by, do: by, at: "api.example.test:443", say: hello(sni("bypass.example.test"))},
			attempt{what: "no server name: " + by, do: by, at: "api.example.test:443", say: hello("")},
			attempt{what: "plain HTTP on 443: " + by, do: by, at: "api.example.test:443", say: "GET /bypass HTTP/1.1\r\nHost: api.example.test\r\n\r\n"},
		)
	}
	// There the server speaks first, and has reported it when the client begins with TLS: that does not reach it.
	return append(out,
		attempt{what: "TLS in another name on port 22", do: "talk", at: "api.example.test:22", say: hello(sni("bypass.example.test")), most: 1},
		attempt{what: "TLS without a name on port 22", do: "talk", at: "api.example.test:22", say: hello(extension(0x1234, "bypass")), most: 1},
	)
}

// directly: around the helper.
func directly() []attempt {
	var out []attempt
	for _, a := range []string{
		serverAddr, hostAddr, hostSecond, dnsAddr, "10.5.5.10", "169.254.169.254", "8.8.8.8", "0.0.0.0", "255.255.255.255", "224.0.0.1", "127.0.0.11", "127.1.2.3", "127.63.255.254", "127.128.0.1",
		"127.64.0.0", "127.64.0.255", "127.64.99.99", "127.100.0.1", "127.127.255.254", "2a05:5::10", "2a05:5::2", "::ffff:5.5.5.10", "64:ff9b::505:50a", "2002:505:50a::1", "fe80::1", "fd00:ec2::254", "ff02::1",
	} {
		at := a
		if strings.Contains(a, ":") {
			at = "[" + a + "]"
		}
		for _, port := range []string{"443", "22"} {
			out = append(out, attempt{what: "TCP to " + a + " port " + port, do: "talk", at: at + ":" + port, say: hello(sni("api.example.test") + extension(0x1234, "bypass"))})
		}
		out = append(out, attempt{what: "UDP to " + a, do: "udp", at: at + ":443", say: "bypass"})
	}
	return append(out,
		attempt{what: "UDP to an allowed name", do: "udp", at: "api.example.test:443", say: "bypass"},
		attempt{what: "UDP to an allowed name, port 53", do: "udp", at: "api.example.test:53", say: question("bypass.test.", 1, 1)},
		attempt{what: "QUIC to an allowed name", do: "udp", at: "api.example.test:443", say: "\xc3\x00\x00\x00\x01\x08bypassby\x00\x00\x41\x00" + strings.Repeat("\x00", 1200)},
	)
}

// reuse: an address stands for one name.
func reuse() []attempt {
	var out []attempt
	for _, port := range []string{"443", "80", "22", "8443"} {
		out = append(out, attempt{what: "the address behind that of an allowed name, port " + port, do: "talk behind", at: "api.example.test:" + port, say: "GET /bypass HTTP/1.1\r\nHost: api.example.test\r\n\r\n"})
	}
	return append(out,
		attempt{what: "one name's address for another name: TLS", do: "talk", at: "api.example.test:443", say: hello(sni("a.wild.example.test") + extension(0x1234, "bypass"))},
		attempt{what: "one name's address for another name: HTTP", do: "talk", at: "api.example.test:80", say: "GET /bypass HTTP/1.1\r\nHost: a.wild.example.test\r\n\r\n"},
		attempt{what: "one name's port for another name", do: "talk", at: "a.wild.example.test:22", say: "bypass"},
	)
}

// calls: what a program does by system calls. The rows are named as its list of them is.
func calls() []attempt {
	var out []attempt
	for what := range systemCalls {
		out = append(out, attempt{what: what, do: "call", at: what})
	}
	return out
}

func connectTo(target string) string {
	return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n"
}

// socksName is a request of SOCKS5 for a name.
func socksName(name string, port int) string {
	return "\x05\x01\x00\x03" + vec(1, name) + string(binary.BigEndian.AppendUint16(nil, uint16(port)))
}

// secretBody is a question behind its header.
var secretBody = question("bypass.secret.tunnel.test.", 16, 1)[12:]

func dnsHeader(flags uint16, questions uint16) string {
	b := binary.BigEndian.AppendUint16([]byte{0x12, 0x34}, flags)
	return string(append(binary.BigEndian.AppendUint16(b, questions), 0, 0, 0, 0, 0, 0))
}

// question is a query of one question.
func question(name string, typ, class uint16) string {
	out := dnsHeader(1<<8, 1)
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		out += vec(1, label)
	}
	b := binary.BigEndian.AppendUint16([]byte(out+"\x00"), typ)
	return string(binary.BigEndian.AppendUint16(b, class))
}

func framed(query string) string { return vec(2, query) }

// vec is a text behind its length of n bytes.
func vec(n int, text string) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(len(text)))
	return string(b[8-n:]) + text
}

func extension(typ int, body string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(typ))) + vec(2, body)
}

func sni(name string) string { return extension(0, vec(2, "\x00"+vec(2, name))) }

// message is a ClientHello with extensions, which a server of TLS 1.2 answers.
func message(extensions string) string {
	more := extension(10, vec(2, "\x00\x17\x00\x1d")) + extension(11, vec(1, "\x00")) + extension(13, vec(2, "\x04\x03\x08\x04\x04\x01"))
	body := "\x03\x03" + strings.Repeat("r", 32) + "\x00" + vec(2, "\xc0\x2b\xc0\x2f\xc0\x2c") + vec(1, "\x00") + vec(2, extensions+more)
	return "\x01" + vec(3, body)
}

func tlsRecord(payload string) string { return "\x16\x03\x01" + vec(2, payload) }

func hello(extensions string) string { return tlsRecord(message(extensions)) }

func unhex(text string) string {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// families are sockets other than TCP and UDP, each for an address outside.
var families = []struct {
	what              string
	domain, typ, prot int
}{
	{"a raw socket of ICMP", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
	{"a raw socket of TCP", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP},
	{"a raw socket of UDP", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP},
	{"a raw socket with a head of its own", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW},
	{"a raw socket of IP in IP", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_IPIP},
	{"a raw socket of GRE", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_GRE},
	{"a socket for ping", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
	{"SCTP", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
	{"SCTP with packets", unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP},
	{"DCCP", unix.AF_INET, unix.SOCK_DCCP, unix.IPPROTO_DCCP},
	{"UDP-Lite", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE},
	{"Multipath TCP", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
	{"L2TP", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_L2TP},
	{"SMC", unix.AF_SMC, unix.SOCK_STREAM, 0},
	{"RDS", unix.AF_RDS, unix.SOCK_SEQPACKET, 0},
}
