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
		{"agentjail-debug", entering, append([]string{"PTRACE_SEIZE"}, all...)},
	} {
		t.Run(c.runtime, func(t *testing.T) {
			id := d.Must("run", "-d", "--runtime="+c.runtime, engine.Busybox, "/usr/local/bin/probe", "pounce", "/tmp/stop")
			for range c.execs {
				d.Must("exec", id, "true")
			}
			d.Must("exec", id, "touch", "/tmp/stop")
			d.Must("wait", id)
			out := d.Must("logs", id)
			var got struct {
				Control     []string
				Seen, Tries int
				Reached     []struct{ How, Comm string }
				Execs       []int
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v: %s", err, out)
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
			if (c.runtime == "runc") != (len(got.Reached) > 0) {
				t.Errorf("reached: %v", got.Reached)
			}
			for _, r := range got.Reached {
				// The name changes where execve(2) can no longer fail, and the process is no more the runtime's.
				if r.Comm != "true" && r.Comm != "touch" {
					t.Errorf("%s worked on a process that was only entering: %s", r.How, r.Comm)
				}
			}
		})
	}
}
