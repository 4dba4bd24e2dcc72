// Agentjail-enter is the init step of a jail. agentjail passes it to the delegate, which starts it
// in the jail in place of the jail's program; it is of no use by itself. For `agentjail sandbox`
// the same program also waits for the end of that process.
package main

import (
	"os"

	"agentjail.dev/runtime/jailinit/guest"
	"agentjail.dev/runtime/jailinit/keeper"
)

func main() {
	if os.Args[0] == keeper.Name {
		keeper.Main()
	}
	guest.Main()
}
