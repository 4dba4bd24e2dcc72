// Agentjail-egress-keys is agentjail-egress for a jail with credentials for which TLS or ssh is ended: it speaks HTTP/2 and ssh besides. That is a
// program of its own, so that the helpers of all other jails are not larger by it.
package main

import (
	"os"

	"agentjail.dev/runtime/network/names/egress"
	"agentjail.dev/runtime/network/names/ended"
	"agentjail.dev/runtime/network/names/gitssh"
	"agentjail.dev/runtime/network/names/h2"
)

func main() { os.Exit(egress.Main(ended.Speakers{HTTP2: h2.Serve, SSH: gitssh.New})) }
