package exhaust

import (
	"encoding/json"
	"strconv"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// byUsers has some users of a container, one after the other, take something and hold it. It returns what each of them got.
func byUsers[T any](t *testing.T, options []string, probe ...string) []T {
	t.Helper()
	if promise.Sandbox() != "" {
		t.Skip("signals and descriptors are the sandbox's own")
	}
	d := docker.For(t)
	id := d.Detached(append(options, engine.Busybox, "sleep", "3600")...)
	all := make([]T, 3)
	for i := range all {
		cmd := d.Command(t.Context(), append([]string{"exec", "-u", strconv.Itoa(1000 + i), id, "probe"}, probe...)...)
		out, err := cmd.StdoutPipe()
		env.Check(t, err)
		env.Check(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Wait() }) // it was killed: the context of the test has ended
		env.Check(t, json.NewDecoder(out).Decode(&all[i]))
	}
	return all
}

// TestPendingSignals: RLIMIT_SIGPENDING bounds each user of a container alone. All users of a jail together have no more pending
// signals than one.
func TestPendingSignals(t *testing.T) {
	const most = 4096
	for _, c := range []struct {
		name, runtime string
		want          []int
	}{{"control", plain, []int{most, most, most}}, {"jail", jail, []int{most, 0, 0}}, {"service", service, []int{most, 0, 0}}} {
		t.Run(c.name, func(t *testing.T) {
			got := byUsers[map[string]struct{ Taken int }](t, []string{c.runtime, "--ulimit", "sigpending=" + strconv.Itoa(most)}, "counts")
			for i, user := range got {
				// Those of processes that end at the moment count, too.
				if n := user["pending signals"].Taken; n > c.want[i] || n < c.want[i]-16 {
					t.Errorf("user %d has %d pending signals, want %d", i, n, c.want[i])
				}
			}
		})
	}
}

// TestDescriptorsInFlight: descriptors that were sent and not taken count for each user of the host, up to the limit on open files of
// the sender, and one message more.
func TestDescriptorsInFlight(t *testing.T) {
	const attempt, most = 50000, 16384 + 253
	for _, c := range []struct {
		name, runtime string
		bounded       bool
	}{{"control", plain, false}, {"jail", jail, true}, {"service", service, true}} {
		t.Run(c.name, func(t *testing.T) {
			for i, user := range byUsers[taken](t, []string{c.runtime, "--ulimit", "nofile=20000:20000"}, "in-flight", strconv.Itoa(attempt)) {
				if bounded := user.Got <= most; bounded != c.bounded || user.Errno != "ETOOMANYREFS" {
					t.Errorf("user %d: %+v of %d", i, user, attempt)
				}
			}
		})
	}
}
