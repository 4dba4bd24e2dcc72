package wire

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

var github = netip.MustParseAddr("127.64.0.1")

// lookup returns an address also with false: Answer must not use it then.
func lookup(name string) (netip.Addr, bool) { return github, name == "github.com" }

// query packs a question by hand, so that labels can hold anything.
func query(name string, typ dnsmessage.Type, extra ...byte) []byte {
	q := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	if name != "" {
		for label := range strings.SplitSeq(name, ".") {
			q = append(append(q, byte(len(label))), label...)
		}
	}
	q = append(q, 0)
	q = binary.BigEndian.AppendUint16(q, uint16(typ))
	return append(append(q, 0, 1), extra...)
}

func set(q []byte, at int, b byte) []byte {
	q = slices.Clone(q)
	q[at] = b
	return q
}

func TestAnswer(t *testing.T) {
	a := dnsmessage.TypeA
	opt := []byte{0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 0}
	for _, c := range []struct {
		what    string
		q       []byte
		rcode   dnsmessage.RCode
		answers int
	}{
		{"allowed", query("github.com", a), 0, 1},
		{"case", query("gItHuB.CoM", a), 0, 1},
		{"any", query("github.com", dnsmessage.TypeALL), 0, 1},
		{"IPv6", query("github.com", dnsmessage.TypeAAAA), 0, 0},
		{"HTTPS", query("github.com", 65), 0, 0},
		{"SVCB", query("github.com", 64), 0, 0},
		{"TXT", query("github.com", dnsmessage.TypeTXT), 0, 0},
		{"PTR of an allowed name", query("github.com", dnsmessage.TypePTR), 0, 0},
		{"another name", query("evil.example", a), 3, 0},
		{"below an allowed name", query("data.github.com", a), 3, 0},
		{"search domain", query("github.com.house.example", a), 3, 0},
		{"PTR", query("1.0.64.127.in-addr.arpa", dnsmessage.TypePTR), 3, 0},
		{"root", query("", dnsmessage.TypeNS), 3, 0},
		{"NUL", query("github\x00.com", a), 3, 0},
		{"NUL at the end", query("github.com\x00", a), 3, 0},
		{"space", query("github .com", a), 3, 0},
		{"binary", query("\xff\xfe.com", a), 3, 0},
		{"address", query("127.0.0.1", a), 3, 0},
		{"another class", set(query("github.com", a), 27, 3), 3, 0},
		{"opcode", set(query("github.com", a), 2, 4<<3), 4, 0},
		{"EDNS", set(query("github.com", a, opt...), 11, 1), 0, 1},
		{"EDNS 1", set(query("github.com", a, set(opt, 6, 1)...), 11, 1), 0, 0},
		{"two EDNS", set(query("github.com", a, append(opt, opt...)...), 11, 2), 1, 0},
		{"broken EDNS", set(query("github.com", a, opt[:5]...), 11, 1), 1, 0},
		{"no question", set(query("github.com", a), 5, 0), 1, 0},
		{"two questions", set(query("github.com", a), 5, 2), 1, 0},
		{"an answer in the query", set(query("github.com", a, opt...), 7, 1), 1, 0},
		{"cut", query("github.com", a)[:20], 1, 0},
		{"a name that points to itself", []byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1}, 1, 0},
		{"a dot in a label", append([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10}, "github.com\x00\x00\x01\x00\x01"...), 1, 0},
	} {
		for _, udp := range []bool{true, false} {
			reply := AnswerDNS(c.q, udp, lookup)
			var m dnsmessage.Message
			if err := m.Unpack(reply); err != nil {
				t.Errorf("%s: %v", c.what, err)
				continue
			}
			if m.RCode != c.rcode || len(m.Answers) != c.answers || !m.Response || m.ID != binary.BigEndian.Uint16(c.q) || !m.RecursionAvailable {
				t.Errorf("%s: %+v", c.what, m)
			}
			for _, r := range m.Answers {
				if r.Body.(*dnsmessage.AResource).A != github.As4() || r.Header.TTL != dnsTTL {
					t.Errorf("%s: %+v", c.what, r)
				}
			}
			if len(m.Questions) == 1 && !bytes.Equal(reply[12:20], c.q[12:20]) {
				t.Errorf("%s: the question is not as it came", c.what)
			}
		}
	}
}

func TestEDNS(t *testing.T) {
	opt := []byte{0, 0, 41, 4, 0, 0, 1, 0, 0, 0, 0}
	var m dnsmessage.Message
	if err := m.Unpack(AnswerDNS(set(query("github.com", dnsmessage.TypeA, opt...), 11, 1), true, lookup)); err != nil {
		t.Fatal(err)
	}
	if len(m.Additionals) != 1 || m.Additionals[0].Header.ExtendedRCode(m.RCode) != 16 {
		t.Errorf("BADVERS is not returned: %+v", m)
	}
}

func TestNoAnswer(t *testing.T) {
	q := query("github.com", dnsmessage.TypeA)
	for what, q := range map[string][]byte{
		"nothing": nil, "less than a header": q[:11], "a response": set(q, 2, 0x80), "too long": append(q, make([]byte, MaxQuery)...), "too long for UDP": append(q, make([]byte, dnsUDPSize)...),
	} {
		if got := AnswerDNS(q, true, lookup); got != nil {
			t.Errorf("%s: %x", what, got)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(query("github.com", dnsmessage.TypeA))
	f.Add(set(query("GitHub.com", 65, 0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 0), 11, 1))
	f.Add([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, q []byte) {
		asked := 0
		reply := AnswerDNS(q, true, func(name string) (netip.Addr, bool) { asked++; return lookup(name) })
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil {
			t.Fatal(err)
		}
		if len(reply) > 512 || asked > 1 || m.RCode == dnsmessage.RCodeRefused || len(m.Answers) > 0 && asked == 0 || !bytes.Equal(reply[:2], q[:2]) {
			t.Fatalf("%x: queried %d times, %+v", q, asked, m)
		}
	})
}
