package sandbox

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestStatuses: the status of each mistake, of any command, with its one line.
func TestStatuses(t *testing.T) {
	none := os.DevNull
	for _, c := range []struct {
		args string
		want int
		text string
	}{
		{"no-such-command", 2, "unknown command"},
		{"inspct x", 2, `did you mean "inspect"?`},
		{"network relaod x", 2, `did you mean "reload"?`},
		{"denied --jsn x", 2, `did you mean "--json"?`},
		{"denied x --jsn", 2, `did you mean "--json"?`},
		{"sandbox --workspce . -- true", 125, `did you mean "--workspace"?`},
		{"install docker --name agentjail-no-such", 2, "no-such"},
		{"gc --no-such-option", 2, "no-such-option"},
		{"completion tcsh", 2, "(remedy: one of bash, fish, zsh)"},
		{"--no-such-option ls", 2, "no-such-option"},
		{"create x", 1, "config.json"}, // runc's status,
		{"help no-such-command", 2, "no-such-command"},
		{"network", 2, "(remedy: one of check, log, reload, restart;"},
		{"network help no-such-command", 2, "no-such-command"},
		{"network check --follow a b.example", 2, "follow"},
		{"network check a b.example:http", 2, "NAME[:PORT]"},
		{"network reload", 2, "CONTAINER"},
		{"network reload --all a", 2, "CONTAINER or --all"},
		{"denied no-such-jail", 125, "no-such-jail"},
		{"denied help", 125, "help"},
		{"inspect no-such-jail", 125, "no-such-jail"},
		{"receipt no-such-jail", 125, "no-such-jail"},
		{"receipt", 2, "container id"},
		{"receipt --against " + none, 125, none},
		{"journal no-such-jail", 125, "no-such-jail"},
		{"journal --verify", 2, "CONTAINER"},
		{"diff no-such-jail", 125, "no-such-jail"},
		{"export no-such-jail", 125, "no-such-jail"},
		{"export a b", 2, "exactly 1"},
		{"export --for nspawn a", 2, "--bundle"},
		{"export --bundle a", 2, "new directory"},
		{"export --bundle --for x a b", 2, `--for "x"`},
		{"explain " + none, 125, none},
		{"why socket", 2, "why needs"},
		{"why no-such-jail socket", 125, "no-such-jail"},
		{"why --policy a/b socket", 2, "--config a/b"},
		{"why --policy no-such-policy socket", 125, "no-such-policy"},
		{"why --profile strict socket", 2, "--seccomp-profile"},
		{"why --seccomp-profile no-such socket", 2, "no-such"},
		{"why --seccomp-profile default --arch mips socket", 2, "amd64, arm64"},
		{"why --seccomp-profile default read", 0, "read"},
		{"why --seccomp-profile default mount", 1, "mount"},
		{"why --seccomp-profile default what-is-it", 1, ""},
		{"seccomp show no-such", 2, "must be one of"},
		{"seccomp show --arch mips", 2, "must be one of"},
		{"seccomp diff --against " + none, 125, none},
		{"seccomp prove --all default", 2, "--all"},
		{"seccomp prove --jail x --all", 2, "--jail"},
		{"seccomp prove --jail no-such-jail", 125, "no-such-jail"},
		{"install docker --by post", 2, "(remedy: shim or path)"},
		{"install docker surplus", 2, "surplus"},
		{"install node", 2, "--root is missing"},
		{"uninstall all surplus", 2, "surplus"},
		{"check surplus", 2, "surplus"},
		{"ls surplus", 2, "surplus"},
		{"watch --to unix:" + none, 125, "(remedy: listen at it before)"},
		{"learn", 125, "needs a command"},
		{"learn --from a b", 125, "not both"},
		{"learn --name A/B -- true", 125, "--name"},
		{"learn --from no-such-jail", 125, "no-such-jail"},
		{"git", 125, "agentjail git . status"},
		{"git --no-such-option", 125, "no-such-option"},
		{"sandbox --no-such-option", 125, "no-such-option"},
		{"sandbox --timeout soon", 125, "soon"},
		{"sandbox -- no-such-program", 127, ""},
		{"sandbox -- /etc/passwd", 126, ""},
		{"workspace list surplus", 2, "surplus"},
		{"workspace diff no-such-view", 125, "no-such-view"},
		{"workspace apply no-such-view", 125, "no-such-view"},
		{"workspace discard no-such-view", 125, "no-such-view"},
		{"policy schema", 0, "json-schema.org"},
	} {
		got, out := ctl(t, strings.Fields(c.args)...)
		if got != c.want || !strings.Contains(out, c.text) {
			t.Errorf("%s: status %d, want %d with %q: %.300s", c.args, got, c.want, c.text, out)
		}
		if c.want > 1 && strings.Count(out, "\n") > 1 {
			t.Errorf("%s: more than a line: %s", c.args, out)
		}
	}
}

// TestSchemas: each JSON that a command prints is one object, or one a line, that names its form.
func TestSchemas(t *testing.T) {
	cmd := exec.Command(bin, "sandbox", "--", "sh", "-c", "echo x >/tmp/x; sleep 1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
