// Package selinux holds the SELinux module that operators install on hosts whose policy confines
// the container engine (README.md beside it), for what installs it: the virtual machine of the
// tests.
package selinux

import _ "embed"

// Module is the module's source in SELinux' common intermediate language (semodule(8)).
//
//go:embed agentjail.cil
var Module []byte
