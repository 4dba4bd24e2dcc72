// A start would read the control group's processor quota and the list of all
// mounts, which is long where many containers run, to choose a number of threads
// (Go 1.25). Nothing here needs more of them than there are processors.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Agentjail-enter is the last step into a jail. agentjail hands it to its
// delegate, which starts it inside in the place of the jail's program; it is of
// no use by itself.
package main

import "agentjail.dev/runtime/enter/inside"

func main() { inside.Main() }
