// Command containerd-shim-agentjail-v2 is agentjail's containerd shim, for the
// runtime io.containerd.agentjail.v2.
package main

import (
	"agentjail.dev/runtime/version"
	"agentjail.dev/shim"
)

func main() { shim.Main(version.Version) }
