// Agentjail-egress is the helper process of a jail whose network is by name. agentjail starts it,
// outside the jail; it is of no use by itself.
package main

import (
	"os"

	"agentjail.dev/runtime/network/names/egress"
)

func main() { os.Exit(egress.Main(egress.Protocols{})) }
