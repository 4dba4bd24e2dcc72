// Package ended is what a jail's helper hands to those who speak the protocols that it ends for a credential: HTTP/2 (package h2) and ssh
// (package gitssh). They are linked into a program of their own, so that helpers without such a credential have nothing of them.
package ended

import (
	"crypto/tls"

	"agentjail.dev/runtime/network/names/http1"
)

// Speakers are those who speak them; one that is nil is not spoken.
type Speakers struct {
	HTTP2 func(*HTTP2)
}

// HTTP2 is a connection whose TLS is ended on both sides, which have agreed on HTTP/2.
type HTTP2 struct {
	Client, Server *tls.Conn
	// Host is the server's name.
	Host string
	// Judge judges a request before anything of it is sent on, and sets the credentials in it.
	Judge func(*http1.Head) (*http1.Request, error)
	// Own tells whether a field, whose name is in lower case, is set by a credential.
	Own func(name string) bool
	// Scan begins to look at a text that is sent on in parts: a part with an error is not sent.
	Scan func() func([]byte) error
	// Reveals tells whether a text has the value of a credential.
	Reveals func(string) bool
	// Refused is told of each request that is not sent on, or not whole. LeftOut is told how many fields of a response were left out.
	Refused func(error)
	LeftOut func(int)
	// Sent and Got count bytes, without what HTTP/2 puts around them.
	Sent, Got func(int)
}
