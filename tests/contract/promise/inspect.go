package promise

import (
	"context"
	"os/exec"
	"testing"

	"agentjail.dev/tests/engine"
)

// Inspect is `agentjail inspect ID`, for Engine.Inspect.
func Inspect(t testing.TB, id string) engine.Result {
	t.Helper()
	under, err := engine.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), engine.CommandWait)
	defer cancel()
	return engine.RunCommand(ctx, exec.CommandContext(ctx, under, "inspect", id), nil)
}
