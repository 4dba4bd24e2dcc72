package wire

import (
	"errors"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"

	"agentjail.dev/runtime/spec/netrules"
)

const (
	// dnsTTL of an address, in seconds.
	dnsTTL = 30
	// MaxQuery bounds the queries that are read, in bytes: one question of at most 271, and EDNS
	// with padding.
	MaxQuery = 4096
	// dnsUDPSize is the size that is sent to clients with EDNS, which passes every link (DNS flag
	// day 2020).
	dnsUDPSize = 1232
	// maxDNSRecords bounds the records that are walked in search of EDNS.
	maxDNSRecords = 16
	// dnsBadVersion is the part of BADVERS (16) that stands in the OPT record.
	dnsBadVersion = dnsmessage.RCode(16)
)

// AnswerDNS returns the reply to a query, without the length prefix of TCP, or nil for no reply. It
// calls lookup with canonical names only. lookup returns the IPv4 address of an allowed name. No
// other server is queried: no query leaves the host, so that names cannot carry data out.
//
// # Answers (RFC 1035; RFC 6891 for EDNS)
//
//	A of an allowed name               its address, TTL 30
//	any other type of an allowed name  NOERROR without an answer (RFC 2308 2.2),
//	                                   also for HTTPS and SVCB: no key for ECH
//	any other name, class or PTR       NXDOMAIN
//	any other opcode                   NOTIMP
//	EDNS of a later version            BADVERS
//	not one question, broken sections  FORMERR
//	a response, less than a header     nothing
//
// REFUSED is never returned: musl would wait five seconds for a better server, and glibc would
// report a temporary failure. Negative answers have no SOA and so are not cached (RFC 2308 5): the
// rules of a running jail can change. The question is echoed as it came, with its mix of cases
// (draft-vixie-dnsext-dns0x20). No answer is longer than 512 bytes, so none is truncated.
func AnswerDNS(query []byte, udp bool, lookup func(name string) (netip.Addr, bool)) []byte {
	if len(query) > MaxQuery || udp && len(query) > dnsUDPSize {
		return nil
	}
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil
	}
	reply := dnsmessage.Header{
		ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired,
		RecursionAvailable: true,
	}
	if h.OpCode != 0 {
		reply.RCode = dnsmessage.RCodeNotImplemented
		return buildReply(reply, nil, false, netip.Addr{})
	}
	q, edns, version, ok := readQuestion(&p)
	if !ok {
		reply.RCode = dnsmessage.RCodeFormatError
		return buildReply(reply, nil, false, netip.Addr{})
	}
	if edns && version != 0 {
		reply.RCode = dnsBadVersion
		return buildReply(reply, &q, true, netip.Addr{})
	}
	addr, known := lookUp(q, lookup)
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	if q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeALL {
		addr = netip.Addr{}
	}
	return buildReply(reply, &q, edns, addr)
}

// readQuestion decodes the question and looks for EDNS after it. It returns false for a malformed
// query.
func readQuestion(p *dnsmessage.Parser) (q dnsmessage.Question, edns bool, version byte, ok bool) {
	q, err := p.Question()
	if err != nil {
		return q, false, 0, false
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return q, false, 0, false
	}
	if _, err := p.AnswerHeader(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return q, false, 0, false
	}
	if _, err := p.AuthorityHeader(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return q, false, 0, false
	}
	for range maxDNSRecords {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return q, edns, version, true
		}
		if err != nil || p.SkipAdditional() != nil {
			return q, false, 0, false
		}
		if h.Type != dnsmessage.TypeOPT {
			continue
		}
		if edns || h.Name.String() != "." {
			return q, false, 0, false // RFC 6891 6.1.1: one, with the name of the root
		}
		edns, version = true, byte(h.TTL>>16)
	}
	return q, false, 0, false
}

// lookUp looks up a question's name.
func lookUp(q dnsmessage.Question, lookup func(string) (netip.Addr, bool)) (netip.Addr, bool) {
	if q.Class != dnsmessage.ClassINET {
		return netip.Addr{}, false
	}
	name, err := netrules.Canonical(q.Name.String())
	if err != nil {
		return netip.Addr{}, false
	}
	addr, ok := lookup(name)
	if !ok || !addr.Is4() {
		return netip.Addr{}, false
	}
	return addr, true
}

// buildReply encodes a reply. Without a valid address the reply has no answer record.
func buildReply(h dnsmessage.Header, q *dnsmessage.Question, edns bool, addr netip.Addr) []byte {
	extended := h.RCode
	h.RCode &= 15
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), h)
	b.EnableCompression()
	var err error
	do := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	if q != nil {
		do(b.StartQuestions)
		do(func() error { return b.Question(*q) })
	}
	if addr.IsValid() {
		do(b.StartAnswers)
		do(func() error {
			return b.AResource(dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: dnsTTL},
				dnsmessage.AResource{A: addr.As4()})
		})
	}
	if edns {
		do(b.StartAdditionals)
		do(func() error {
			var opt dnsmessage.ResourceHeader
			if err := opt.SetEDNS0(dnsUDPSize, extended, false); err != nil {
				return err
			}
			return b.OPTResource(opt, dnsmessage.OPTResource{})
		})
	}
	if err != nil {
		return nil
	}
	out, err := b.Finish()
	if err != nil {
		return nil
	}
	return out
}
