// A start would read the control group's processor quota and the list of all
// mounts, which is long where many containers run, to choose a number of threads
// (Go 1.25). Nothing here needs more of them than there are processors.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command containerd-shim-agentjail-v2 is agentjail's containerd shim, for the
// runtime io.containerd.agentjail.v2.
package main

import "agentjail.dev/shim"

// version is set by the build.
var version = "0.1.0-dev"

func main() { shim.Main(version) }
