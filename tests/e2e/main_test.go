// Package e2e tries agentjail on a real Docker: what has to work in a jail, and what must not.
package e2e

import (
	"fmt"
	"os"
	"testing"

	"agentjail.dev/tests/engine"
)

// docker is the engine that all tests of the package share.
var docker *engine.Engine

func TestMain(m *testing.M) {
	if err := chooseTests(); err != nil {
		fmt.Fprintln(os.Stderr, "choosing tests:", err)
		os.Exit(1)
	}
	os.Exit(engine.Main(m, func(e *engine.Engine) error {
		docker = e
		return e.ImportBusybox()
	}))
}
