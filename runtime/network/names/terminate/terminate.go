// Package terminate is what a jail's helper hands to those who speak the protocols that it ends for
// a credential: HTTP/2 (package h2) and ssh (package gitssh). They are linked into a program of
// their own, so that helpers without such a credential have nothing of them.
package terminate

import (
	"crypto/tls"
	"net"

	"agentjail.dev/runtime/network/names/http1"
)

// Speakers are those who speak them; one that is nil is not spoken.
type Speakers struct {
	HTTP2 func(*HTTP2)
	// SSH reads the key by which a jail knows its helper, and those that it is not to have, and
	// returns who speaks ssh with them.
	SSH func(hostKey []byte, keys []Key) (func(*SSH), error)
}

// Key is a private key for git over ssh.
type Key struct {
	Name         string
	User         string
	Repositories []string
	HostKeys     map[string][][]byte
	Private      []byte
}

// SSH is a connection by which a jail's program speaks ssh.
type SSH struct {
	Client net.Conn
	// Endpoint is the server's NAME:PORT.
	Endpoint string
	// Dial connects to the server; nil where it cannot, which the client has been told.
	Dial func() net.Conn
	// Refused is told of each thing that is not granted, Allowed of each that is.
	Refused func(error)
	Allowed func(string)
	// Sent and Got count bytes, without what ssh puts around them.
	Sent, Got func(int)
}

// HTTP2 is a connection whose TLS is ended on both sides, which have agreed on HTTP/2.
type HTTP2 struct {
	Client, Server *tls.Conn
	// Host is the server's name.
	Host string
	// Judge judges a request before anything of it is sent on, and sets the credentials in it.
	Judge func(*http1.Head) (*http1.Request, error)
	// Own reports whether a field, whose name is in lower case, is set by a credential.
	Own func(name string) bool
	// Scan begins to look at a text that is sent on in parts: a part with an error is not sent.
	Scan func() func([]byte) error
	// Reveals reports whether a text has the value of a credential.
	Reveals func(string) bool
	// Refused is told of each request that is not sent on, or not whole. LeftOut is told how many
	// fields of a response were left out.
	Refused func(error)
	LeftOut func(int)
	// Sent and Got count bytes, without what HTTP/2 puts around them.
	Sent, Got func(int)
}
