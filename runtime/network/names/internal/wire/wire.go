// Package wire reads the first messages of a jail's programs: DNS queries, the ClientHello of
// TLS, and the requests of programs that require a proxy. All of it is hostile. The functions have
// no state, and reach nothing but their arguments. Package http1 is the same for HTTP.
//
// # Requests to a proxy
//
// SOCKS5 (RFC 1928) and HTTP's CONNECT (RFC 9110 9.3.6) contain the target, which is handled like a
// connection without a proxy. These are allowed:
//
//	SOCKS5   no authentication; CONNECT; an IPv4 or IPv6 address, or a name
//	CONNECT  "CONNECT target HTTP/1.x",
//	         target = name ":" port / ipv4 ":" port / "[" ipv6 "]" ":" port;
//	         a Host, if there is one, for the same target; no body
//
// A name follows the grammar of package netrules: no NUL, CR, LF, space or "@", and no address in
// any notation. SOCKS5 has types of its own for addresses, so an address as its name is refused. An
// address of CONNECT is in its usual form (RFC 5952, four decimal numbers); octal, hexadecimal and
// short forms are refused. An IPv4 address in IPv6 is the IPv4 address. BIND, UDP ASSOCIATE and
// SOCKS4 are refused.
//
// Of SOCKS5 no byte behind the request is read. A request has at most 64 KiB (CONNECT) or 517 bytes
// (SOCKS5). Deadlines are the caller's.
package wire
