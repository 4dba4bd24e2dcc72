// Agentjail-enter is the init step into a jail. agentjail hands it to its
// delegate, which starts it inside in the place of the jail's program; it is of
// no use by itself. Beside `agentjail sandbox` the same program waits for that
// one's end.
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
