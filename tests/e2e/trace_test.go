package e2e

import (
	"encoding/json"
	"slices"
	"testing"

	"agentjail.dev/tests/engine"
)

// entering is how many processes are sent into a container while it attacks them.
const entering = 100

// TestAttachToEntering: no program of a jail gets into a process that is only entering it, nor into one that has entered
// by exec: not as a tracer, and not by its files in /proc (CVE-2016-9962). The same attack on a plain container gets into
// those that have entered, some in the middle of executing their program.
func TestAttachToEntering(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	all := []string{"mem", "environ", "a descriptor", "root", "exe"}
	for _, c := range []struct {
		runtime string
		execs   int
		control []string // what the attacker can do to a process of its own
	}{
		{"runc", 10, append([]string{"PTRACE_SEIZE"}, all...)},
		{engine.Name, 20, all},
		{"agentjail-service", 20, all},
		{"agentjail-debug", entering, append([]string{"PTRACE_SEIZE"}, all...)},
	} {
		t.Run(c.runtime, func(t *testing.T) {
			got := pounceOn(t, d, c.runtime, c.execs)
			// A plain container's processes are there for a moment only: on a busy machine a round may miss all.
			plain := c.runtime == "runc"
			for n := 1; n < 20 && (got.Seen < c.execs/2 || plain) && (len(got.Reached) == 0 || plain && got.Seen < c.execs/2); n++ {
				t.Logf("%d processes were seen, %d reached: once more", got.Seen, len(got.Reached))
				got = pounceOn(t, d, c.runtime, c.execs)
			}
			t.Logf("%d processes, %d tries, control %q, reached %v, %d of them while they executed their program", got.Seen, got.Tries, got.Control, got.Reached, len(got.Execs))
			for _, way := range c.control {
				if !slices.Contains(got.Control, way) {
					t.Errorf("the attack does not work on a process of its own: %s is missing of %q", way, got.Control)
				}
			}
			if got.Seen < c.execs/2 {
				t.Errorf("%d processes were seen of %d that entered", got.Seen, c.execs)
			}
			if plain != (len(got.Reached) > 0) {
				t.Errorf("reached: %v", got.Reached)
			}
		})
	}
}

// A pounced container's report: see tests/probe.
type pounced struct {
	Control     []string
	Seen, Tries int
	Reached     []struct{ How, Comm string }
	Execs       []int
}

// pounceOn starts a container that attacks what enters it, sends processes in, and returns what came of it.
func pounceOn(t *testing.T, d *engine.T, runtime string, execs int) (got pounced) {
	t.Helper()
	id := d.Must("run", "-d", "--runtime="+runtime, engine.Busybox, "/usr/local/bin/probe", "pounce", "/tmp/stop")
	defer d.Remove(id)
	for range execs {
		d.Must("exec", id, "true")
	}
	shEnds(d, id, "touch /tmp/stop")
	d.Must("wait", id)
	out := d.Must("logs", id)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}
