// Command containerd-shim-agentjail-v2 is agentjail's containerd shim, for the
// runtime io.containerd.agentjail.v2.
package main

import "agentjail.dev/shim"

// version is set by the build.
var version = "0.1.0-dev"

func main() { shim.Main(version) }
