// Package cloud tests hack/cloud: what cloud-init makes of a stock Debian from its user data and agentjail's package. The machine that
// cloud-init makes is one of the virtual machines (hack/vm), which boots by systemd with the user data as its seed.
package cloud

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"agentjail.dev/tests/engine"
)

// madeEnv is set in the machine that cloud-init made.
const madeEnv = "AGENTJAIL_CLOUD"

// cloudWait bounds one command; under emulation cloud-init takes minutes, on a busy machine many.
const cloudWait = 25 * time.Minute

// run runs a command to its end.
func run(t *testing.T, args ...string) engine.Result {
	t.Helper()
	return engine.Within(t, cloudWait, func(ctx context.Context) engine.Result {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.WaitDelay = 5 * time.Second
		return engine.RunCommand(ctx, cmd, nil)
	})
}

// must runs a command that has to succeed, and returns its trimmed standard output.
func must(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, args...).Must(t)
}
