package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// files are policy files with mistakes; FILES in a command line is their directory.
var files = map[string]string{
	"agents":     "[policies.agents]\n",
	"misspelt":   "limts.memory = \"1g\"\n",
	"named":      "\n\n[policies.a.limits]\npid = 5\n",
	"typed":      "[policies.a]\n\nlimits.pids = \"many\"\n",
	"sized":      "limits.memory = \"lots\"\n",
	"mode":       "network.mode = \"name\"\n",
	"old":        "[profiles.a]\n",
	"keyless":    "network.mode = \"names\"\nnetwork.allow = [\"example.org\"]\n[credentials.k]\nhosts = [\"example.org\"]\nfrom = \"file:/nonexistent\"\nheader = \"x-key\"\n",
	"wide":       "\xff\xfel\x00",
	"marked":     "\xef\xbb\xbflimits.pids = 100\n",
	"credential": "network.mode = \"names\"\nnetwork.allow = [\"example.org\"]\n[[network.credential]]\nhost = \"other.example\"\nfile = \"/nonexistent\"\n",
}

// mistakes are command lines that cannot be followed, each with its status and a part of its line: what is wrong, or what mends it. EMPTY is an
// empty word.
var mistakes = []struct {
	args   string
	status int
	text   string
}{
	{"no-such-command", 2, "unknown command"},
	{"inspct x", 2, `did you mean "inspect"?`},
	{"network relaod x", 2, `did you mean "reload"?`},
	{"denied --jsn x", 2, `did you mean "--json"?`},
	{"denied x --jsn", 2, `did you mean "--json"?`},
	{"sandbox --workspce . -- true", 125, `did you mean "--workspace"?`},
	{"install docker --name agentjail-no-such", 2, "no-such"},
	{"gc --no-such-option", 2, "no-such-option"},
	{"gc no-such", 0, "a crash left nothing of these"},
	{"completion tcsh", 2, "(remedy: one of bash, fish, zsh)"},
	{"--no-such-option ls", 2, "no-such-option"},
	{"create x", 1, "config.json"}, // runc's status,
	{"help no-such-command", 2, "no-such-command"},
	{"network", 2, "(remedy: one of check, log, reload, restart, allow, deny, pending;"},
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
	{"receipt --against /dev/null", 125, "/dev/null"},
	{"journal no-such-jail", 125, "no-such-jail"},
	{"journal --verify", 2, "CONTAINER"},
	{"diff no-such-jail", 125, "no-such-jail"},
	{"export no-such-jail", 125, "no-such-jail"},
	{"export a b", 2, "exactly 1"},
	{"export --for nspawn a", 2, "--bundle"},
	{"export --bundle a", 2, "new directory"},
	{"export --bundle --for x a b", 2, `--for "x"`},
	{"explain /dev/null", 125, "/dev/null"},
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
	{"seccomp diff --against /dev/null", 125, "/dev/null"},
	{"seccomp prove --all default", 2, "--all"},
	{"seccomp prove --jail x --all", 2, "--jail"},
	{"seccomp prove --jail no-such-jail", 125, "no-such-jail"},
	{"install docker --by post", 2, "(remedy: shim or path)"},
	{"install docker surplus", 2, "surplus"},
	{"install node", 2, "--root is missing"},
	{"uninstall all surplus", 2, "surplus"},
	{"check surplus", 2, "surplus"},
	{"ls surplus", 2, "surplus"},
	{"watch --to unix:/dev/null", 125, "(remedy: listen at it before)"},
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
	{"sandbox --tighten nonsense=1 -- true", 125, "root.size"},
	{"sandbox --tighten limits.memroy=1g -- true", 125, `did you mean "limits.memory"?`},
	{"sandbox --tighten limits.memory=lots -- true", 125, "512m"},
	{"sandbox --tighten limits.memory=1t -- true", 125, "tighter"},
	{"sandbox --tighten limits.memory -- true", 125, "KEY=VALUE"},
	{"sandbox --tighten limits.pids=7 --tighten limits.pids=8 -- true", 125, "limits.pids"},
	{"sandbox --tighten seccomp.profile=none -- true", 125, `"strict"`},
	{"sandbox --tighten root.backing=disk -- true", 125, "root.backing"},
	{"sandbox --tighten network.approval=prompt -- true", 125, "network.approval"},
	{"sandbox --config /nonexistent.toml -- true", 125, "/nonexistent.toml"},
	{"sandbox --policy nosuch -- true", 125, "[policies.nosuch]"},
	{"sandbox --policy my.toml -- true", 125, "--config"},
	{"sandbox --profile strict -- true", 125, "--profile"},
	{"sandbox --config FILES/agents --policy agnts -- true", 125, `did you mean "agents"?`},
	{"sandbox --config FILES/misspelt -- true", 125, `did you mean "limits.memory"?`},
	{"sandbox --config FILES/named --policy a -- true", 125, "line 4"},
	{"sandbox --config FILES/typed --policy a -- true", 125, "whole number"},
	{"sandbox --config FILES/sized -- true", 125, "not a size"},
	{"sandbox --config FILES/mode -- true", 125, "names"},
	{"sandbox --config FILES/old -- true", 125, "[policies.NAME]"},
	{"sandbox --config FILES/credential -- true", 125, "credential"},
	{"sandbox --config FILES/keyless -- true", 125, "line 5: credentials.k: file:/nonexistent"},
	{"sandbox --tighten limits.cpus=1 -- true", 125, "only the policy file sets this key"},
	{"sandbox --publish eighty -- true", 125, "eighty"},
	{"sandbox --allow https://example.org/x -- true", 125, "example.org"},
	{"sandbox --workspace /nonexistent -- true", 125, "/nonexistent"},
	{"sandbox --workspace / -- true", 125, "workspace"},
	{"sandbox --workspace /etc/passwd -- true", 125, "/etc/passwd"},
	{"sandbox --view x -- true", 125, "--review"},
	{"sandbox --review -- true", 125, "--workspace"},
	{"sandbox --boundary vmware -- true", 125, "gvisor"},
	{"sandbox --volume /nonexistent:/x -- true", 125, "/nonexistent"},
	{"sandbox --volume x -- true", 125, "SRC:DST"},
	{"sandbox --env = -- true", 125, "--env"},
	{"sandbox --timeout -1s -- true", 125, "--timeout"},
	{"sandbox --agent none-of-these", 125, "claude"},
	{"sandbox --agent ../../etc/passwd", 125, "no preset's name"},
	{"sandbox --home empty -- true", 125, "--agent"},
	{"sandbox --direct -- true", 125, "--agent"},
	{"sandbox --key /dev/null -- true", 125, "--agent"},
	{"policy validate FILES/typed", 1, "line 3"},
	{"policy validate FILES/none", 125, "no such file"},
	{"policy validate a b", 2, "at most [FILE]"},
	{"policy show --config FILES/agents --policy b", 1, "no [policies.b]"},
	{"policy show --config FILES/sized", 1, "not a size"},
	{"policy show --config FILES/agents --tighten limits.pids=7 --tighten limits.pids=8", 2, "given as"},
	{"policy show --config FILES/agents --tighten limits.pids=9000", 1, "tighter"},
	{"policy show x", 2, "no argument"},
	{"policy schema x", 2, "no argument"},
	{"network allow", 2, "CONTAINER"},
	{"network allow no-such-jail example.org:443", 125, "no-such-jail"},
	{"network allow x example.org:http", 2, "NAME[:PORT]"},
	{"network allow x example.org:443 --once --for 1h", 2, "--once"},
	{"network deny x example.org:443 --for soon", 2, "soon"},
	{"network pending no-such-jail", 125, "no-such-jail"},
	{"denied no-such-jail@20260101T000000.000000", 125, "(remedy: agentjail journal"},
	{"receipt --key", 2, "receipt --help"},
	{"receipt --html /nonexistent/x no-such-jail", 125, "(remedy: agentjail ls"},
	{"inspect a b", 2, "one more"},
	{"export no-such-jail", 125, "(remedy: agentjail ls"},
	{"diff", 2, "CONTAINER"},
	{"completion powershell", 2, "(remedy: one of bash, fish, zsh)"},
	{"check --config /nonexistent", 2, "--config"},
	{"policy validate /etc", 125, "not a regular file"},
	{"workspace export no-such-view", 125, "(remedy: `agentjail workspace list`"},
	{"workspace apply", 2, "ID [PATH...]"},
	{"network reload --all x", 2, "--all"},
	{"watch --to file:/nonexistent/x", 125, "--to"},
	{"install nosuch", 2, "(remedy: one of docker"},
	{"uninstall", 2, "(remedy: one of docker"},
	{"sandbox --workspace EMPTY -- true", 125, "--workspace has an empty value"},
	{"sandbox --policy EMPTY -- true", 125, "--policy has an empty value"},
	{"sandbox --config EMPTY -- true", 125, "--config has an empty value"},
	{"sandbox --agent EMPTY", 125, "--agent has an empty value"},
	{"sandbox --boundary EMPTY -- true", 125, "--boundary has an empty value"},
	{"sandbox --allow EMPTY -- true", 125, "--allow has an empty value"},
	{"sandbox -v EMPTY -- true", 125, "--volume has an empty value"},
	{"policy show --policy EMPTY", 2, "--policy has an empty value"},
	{"policy validate EMPTY", 2, "an argument is empty"},
	{"gc EMPTY", 2, "an argument is empty"},
	{"denied EMPTY", 2, "an argument is empty"},
	{"sandbox EMPTY", 127, `"": command not found`},
	{"sandbox --agent CLAUDE", 125, "claude"},
	{"sandbox --workspace /sys -- true", 125, "one project"},
	{"sandbox --workspace /proc/self -- true", 125, "one project"},
	{"sandbox --workspace /dev/shm -- true", 125, "one project"},
	{"sandbox --workspace ~nouser -- true", 125, "$HOME"},
	{"sandbox --volume ~/agentjail-none:/x -- true", 125, "$HOME"},
	{"sandbox --volume agentjail-none:/x -- true", 125, "make it first"},
	{"sandbox --timeout 5 -- true", 125, "such as 90s"},
	{"sandbox --timeout 1e9 -- true", 125, "such as 90s"},
	{"sandbox --timeout EMPTY -- true", 125, "such as 90s"},
	{"sandbox --config FILES/wide -- true", 125, "save it as UTF-8"},
	{"sandbox --config FILES/marked -- true", 125, "save it as UTF-8"},
	{"policy validate FILES/wide", 1, "save it as UTF-8"},
}

// TestMistakesEndTheCall: what a caller wrote and cannot be followed ends the call before anything runs, with one line and the right status.
func TestMistakesEndTheCall(t *testing.T) {
	if len(mistakes) < 100 {
		t.Fatalf("%d mistakes", len(mistakes))
	}
	dir := engine.TempDir(t, "/etc", "agentjail-mistakes-") // only root may be able to write policies
	for name, text := range files {
		env.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for _, m := range mistakes {
		args := strings.Fields(strings.ReplaceAll(m.args, "FILES", dir))
		for i, a := range args {
			args[i] = strings.ReplaceAll(a, "EMPTY", "")
		}
		r := engine.Run(t, bin, args...)
		out := r.Stdout + r.Stderr
		if r.Code != m.status || !strings.Contains(out, m.text) {
			t.Errorf("%s: status %d, want %d with %q: %.300s", m.args, r.Code, m.status, m.text, out)
		}
		if m.status > 1 && (strings.Count(out, "\n") > 1 || r.Stdout != "") {
			t.Errorf("%s: more than a line: %s", m.args, out)
		}
	}
	gone := filepath.Join(dir, "gone")
	for what, c := range map[string]struct{ script, text string }{
		"a directory that was removed": {"mkdir " + gone + "; cd " + gone + "; rmdir " + gone + "; exec " + bin + " sandbox -- true", "cd to one that exists"},
		"no user's id":                 {"SUDO_UID=abc exec " + bin + " sandbox -- true", "unset SUDO_UID"},
		"an id of too many digits":     {"SUDO_UID=99999999999 SUDO_GID=1 exec " + bin + " sandbox -- true", "unset SUDO_UID"},
		"no group's id":                {"SUDO_UID=1000 SUDO_GID= exec " + bin + " sandbox -- true", "unset both"},
	} {
		if r := engine.Run(t, "sh", "-c", c.script); r.Code != 125 || !strings.Contains(r.Stderr, c.text) || strings.Count(r.Stderr, "\n") > 1 {
			t.Errorf("%s: %s", what, r)
		}
	}
	// Another policy's mistakes are not this one's.
	path := filepath.Join(dir, "other")
	env.Check(t, os.WriteFile(path, []byte("[policies.a]\nlimits.pids = \"many\"\nnonsense = 1\n[policies.b]\nlimits.pids = 77\n"), 0o644))
	if code, out, errs := sandbox(t, "--config", path, "--policy", "b", "--", "echo", "it ran"); code != 0 || out != "it ran\n" {
		t.Errorf("beside a wrong policy: %d, %q, %q", code, out, errs)
	}
}
