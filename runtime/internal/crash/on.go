//go:build crashtest

// Package crash lets a test end the program at a named step, as kill -9 would.
package crash

import (
	"os"

	"golang.org/x/sys/unix"
)

// Point ends the program with SIGKILL when AGENTJAIL_TEST_CRASH names it.
func Point(name string) {
	if os.Getenv("AGENTJAIL_TEST_CRASH") == name {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	}
}
