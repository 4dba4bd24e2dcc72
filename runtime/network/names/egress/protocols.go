package egress

import (
	"crypto/tls"
	"net"

	"agentjail.dev/runtime/network/names/internal/http1"
)

// Protocols are the implementations of what a helper terminates for a credential besides HTTP/1
// over TLS; a nil one is not supported. Package terminate has them. They are linked into a program
// of their own, so that helpers without such a credential do not contain them.
type Protocols struct {
	HTTP2 func(*HTTP2Conn)
	// SSH parses the key by which a jail recognises its helper, and the keys that the jail must not
	// have. It returns a function that serves a connection.
	SSH func(hostKey []byte, keys []SSHKey) (func(*SSHConn), error)
}

// SSHKey is a private key for git over ssh.
type SSHKey struct {
	Name         string
	User         string
	Repositories []string
	HostKeys     map[string][][]byte
	Private      []byte
}

// SSHConn is an ssh connection of a jail's program.
type SSHConn struct {
	Client net.Conn
	// Endpoint is the server's NAME:PORT.
	Endpoint string
	// Dial connects to the server. It returns nil if it cannot; then the client's connection has
	// been refused already.
	Dial func() net.Conn
	// Refused is called for each refusal, Allowed for each command that is run.
	Refused func(error)
	Allowed func(string)
	// Sent and Got count bytes, without ssh's own framing.
	Sent, Got func(int)
}

// HTTP2Conn is a connection with terminated TLS, on which both sides have agreed on HTTP/2.
type HTTP2Conn struct {
	Client, Server *tls.Conn
	// Host is the server's name.
	Host string
	// Judge judges a request before any part of it is sent on, and sets the credentials in it.
	Judge func(*http1.Head) (*http1.Request, error)
	// Own reports whether a field, whose name is in lower case, is set by a credential.
	Own func(name string) bool
	// Scan starts the scans of a body, which is sent on in parts, and of the fields after it. A
	// part with an error must not be sent.
	Scan func() (body, fields func([]byte) error)
	// Reveals reports whether a text has the value of a credential.
	Reveals func(string) bool
	// Refused is called for each request that is not sent on, or only in part. LeftOut is called
	// with the number of fields that were removed from a response.
	Refused func(error)
	LeftOut func(int)
	// Sent and Got count bytes, without HTTP/2's own framing.
	Sent, Got func(int)
}
