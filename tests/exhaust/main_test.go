// Package exhaust tries to take from the host what no control group counts, or what the kernel has one budget of for all
// processes. The attacks are small: each shows that a bound is there, and its control, a container of the plain delegate,
// that without the bound there is none. docs/host-limits.md reports what remains.
package exhaust

import (
	"os"
	"testing"

	"agentjail.dev/tests/engine"
)

// docker is the engine that all tests of the package share. They run one after the other: what they measure is the
// host's.
var docker *engine.Engine

func TestMain(m *testing.M) {
	os.Exit(engine.Main(m, func(e *engine.Engine) error {
		docker = e
		return e.ImportBusybox()
	}))
}

// Runtimes: the jail, and the control.
const (
	jail  = "--runtime=" + engine.Name
	plain = "--runtime=runc"
	// service is the policy by which a jail has as many users as its root makes.
	service = "--runtime=agentjail-service"
)
