package sandbox

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestEveryJSONNamesItsForm: each JSON that a command prints is one object, or one a line, that names its form.
func TestEveryJSONNamesItsForm(t *testing.T) {
	cmd := exec.Command(bin, "sandbox", "--", "sh", "-c", "echo x >/tmp/x; sleep 1000")
	env.Check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var list struct{ Jails []struct{ ID, State string } }
	env.Eventually(t, "the jail", func() bool {
		return json.Unmarshal([]byte(engine.Run(t, bin, "ls", "--running", "--json").Stdout), &list) == nil && len(list.Jails) == 1 && list.Jails[0].State == "running"
	})
	id := list.Jails[0].ID
	for args, form := range map[string]string{
		"check --json":                            "check",
		"ls --json":                               "ls",
		"inspect --json ID":                       "inspect",
		"denied --json ID":                        "denied",
		"receipt --json ID":                       "receipt",
		"journal --json":                          "journal",
		"journal --json ID":                       "event",
		"journal --json --verify ID":              "journal.verified",
		"why --json ID mount":                     "why",
		"workspace list --json":                   "workspace.list",
		"policy validate --json":                  "policy.validate",
		"policy show --json":                      "policy.show",
		"seccomp show --json":                     "seccomp.show",
		"seccomp diff --json":                     "seccomp.diff",
		"seccomp prove --json":                    "seccomp.prove",
		"learn --json -- true":                    "learn",
		"explain --json /nonexistent-bundle-here": "explain",
	} {
		r := engine.Run(t, bin, strings.Fields(strings.Replace(args, "ID", id, 1))...)
		out := r.Stdout
		d := json.NewDecoder(strings.NewReader(out))
		for n := 0; n == 0 || d.More(); n++ {
			var object struct{ Schema string }
			if err := d.Decode(&object); err != nil || object.Schema != "agentjail."+form+"/1" {
				t.Errorf("%s: %v, schema %q: %.200s%.200s", args, err, object.Schema, out, r.Stderr)
				break
			}
		}
	}
}
