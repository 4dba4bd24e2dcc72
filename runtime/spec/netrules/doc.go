// Package netrules parses the rules for what a jail of the network mode "names" may connect to, and
// matches names and ports against them.
//
// # Grammar
//
//	entry   = target *( SP option ) / "@" preset
//	target  = ( name / "*." name ) [ ":" ports ]
//	        / ipv4 ":" ports / "[" ipv6 "]" ":" ports
//	ports   = port *( "," port )              ; 1 to 65535, decimal, at most 16
//	name    = label *( "." label ) [ "." ]    ; at most 253 bytes
//	label   = letters, digits, "-" and "_", 1 to 63 of them, no "-" at either end
//	option  = "private" / "tls=any" / "ech"   ; each once
//	preset  = letter or digit, then at most 31 of letters, digits and "-"
//
// A name without ports has 443 and 80. "*." stands for one or more labels; at least two must follow
// it, and the name that follows is not part of it. A name is compared in lower case and without its
// trailing dot (RFC 4343). A name with other than ASCII letters becomes its A-label (RFC 5891,
// mapped as in UTS 46); scripts may be mixed. A name whose last label is a number, decimal, octal
// or hexadecimal, is an address to inet_aton(3) and to WHATWG's URL parser, so it is no name here.
// "localhost" and what is below it are no names either (RFC 6761 6.3).
//
// Options: "private" lets the name lead to a private address (exact names and addresses only),
// "tls=any" lets any bytes pass where TLS with the name would be checked, "ech" lets an encrypted
// ClientHello pass.
//
// The deny list has the same entries without options; there a name without ports means every port,
// an address needs no port, and one label after "*." is enough. Denied comes before allowed. An
// empty list allows nothing.
//
// A preset stands for the entries that Presets returns. No such entry is a preset itself.
//
// # Which rule decides
//
// Among the rules with the port, an exact name comes before a wildcard, a longer wildcard before a
// shorter one, then the order of the policy.
package netrules
