// Agentjail-enter is the init step into a jail. agentjail hands it to its
// delegate, which starts it inside in the place of the jail's program; it is of
// no use by itself.
package main

import "agentjail.dev/runtime/enter/inside"

func main() { inside.Main() }
