// Package terminate implements the protocols that a helper terminates for credentials besides
// HTTP/1 over TLS: HTTP/2, and ssh for git.
package terminate

import "agentjail.dev/runtime/network/names/egress"

// Protocols returns the protocols.
func Protocols() egress.Protocols { return egress.Protocols{HTTP2: serveHTTP2, SSH: newSSH} }
