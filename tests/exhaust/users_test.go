package exhaust

import (
	"encoding/json"
	"strconv"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestPendingSignals: RLIMIT_SIGPENDING bounds each user of a container alone. All users of a jail together have no more pending
// signals than one.
func TestPendingSignals(t *testing.T) {
	if promise.Sandbox() != "" {
		t.Skip("signals are the sandbox's own")
	}
	const users, most = 3, 4096
	for _, c := range []struct {
		name, runtime string
		least, most   int
	}{{"control", plain, users * most, users * most}, {"jail", jail, most / 2, most}} {
		t.Run(c.name, func(t *testing.T) {
			d := docker.For(t)
			id := d.Detached(c.runtime, "--ulimit", "sigpending="+strconv.Itoa(most), engine.Busybox, "sleep", "3600")
			sum := 0
			for user := range users {
				cmd := d.Command(t.Context(), "exec", "-u", strconv.Itoa(1000+user), id, "probe", "counts")
				out, err := cmd.StdoutPipe()
				env.Check(t, err)
				env.Check(t, cmd.Start())
				t.Cleanup(func() { _ = cmd.Wait() })
				var got map[string]struct{ Taken int }
				env.Check(t, json.NewDecoder(out).Decode(&got))
				sum += got["pending signals"].Taken
				t.Logf("user %d: %v", 1000+user, got)
			}
			if sum < c.least || sum > c.most {
				t.Errorf("%d users have %d pending signals, want %d to %d", users, sum, c.least, c.most)
			}
		})
	}
}
