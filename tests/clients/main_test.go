// Package clients runs container clients that other people wrote, each from its package or module, over Docker and containerd with runc
// and with jails: what they print and how they end is the same, but where a jail is the point.
package clients

import (
	"fmt"
	"os"
	"testing"

	"agentjail.dev/tests/engine"
)

// docker is the engine that all tests of the package share.
var docker *engine.Engine

func TestMain(m *testing.M) {
	code := engine.Main(m, func(e *engine.Engine) error {
		docker = e
		return e.ImportBusybox()
	})
	if err := closeContainerd(); err != nil {
		fmt.Fprintln(os.Stderr, "clean up:", err)
		code = 1
	}
	os.Exit(code)
}
