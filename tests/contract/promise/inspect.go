package promise

import (
	"context"
	"os/exec"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// Query is `agentjail VERB…` as this process's user, for Engine.Query.
func Query(t testing.TB, args ...string) engine.Result {
	t.Helper()
	under := env.Get(t, engine.UnderTest)
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	defer cancel()
	return engine.RunCommand(ctx, exec.CommandContext(ctx, under, args...), nil)
}
