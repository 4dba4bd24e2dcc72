// Package remedies follows what agentjail's refusals name as remedies: afterwards the same thing works.
package remedies

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var bin string

func TestMain(m *testing.M) { os.Exit(engine.MainBare(m, "it runs jails", &bin)) }

// prelude is before each script of a case. A script has these functions and variables:
//
//	D            a directory of the case's own, root's, below /etc
//	W            a workspace of user 1000, with the file f
//	policy TEXT  writes the policy; without it there is the default one
//	aj ARGS      runs agentjail under that policy
//	run EDIT     runs a container whose configuration s, a Python dictionary, was edited by the statements EDIT
//	running ARGS has a sandbox with the options ARGS run until the script ends
//	mount ARGS   are the fields of a bind mount in EDIT: source, place, further options
const prelude = `set -eu
umask 022
policy() { printf '%s\n' "$1" >"$D/policy.toml"; }
aj() { "$AGENTJAIL" --config "$D/policy.toml" "$@"; }
run() {
	python3 -c '
import json,sys
d=sys.argv[1]
s=json.load(open(d+"/template.json"))
p=s["process"]
D,W=sys.argv[3],sys.argv[4]
def sh(text): p["args"]=["sh","-c",text]
def mount(source,place,*options): s["mounts"].append({"destination":place,"type":"bind","source":source,"options":["rbind",*options]})
exec(sys.argv[2])
json.dump(s,open(d+"/config.json","w"))' "$B" "$1" "$D" "$W"
	status=0
	aj --root "$D/state" run --bundle "$B" "remedy-$$" </dev/null || status=$?
	aj --root "$D/state" delete --force "remedy-$$" >/dev/null 2>&1 || true
	return $status
}
running() {
	mkfifo $D/never $D/began 2>/dev/null || true
	exec 8<>$D/never 9<>$D/began
	"$AGENTJAIL" --config "$D/policy.toml" sandbox "$@" -- sh -c 'echo began; cat' <$D/never >$D/began 2>&1 8>&- 9>&- &
	trap 'exec 8>&- 9>&-; wait' EXIT
	while read -r line <&9; do
		[ "$line" != began ] || return 0
	done
}
`

// A remedy is a refusal, what it names, and that this works.
type remedy struct {
	name string
	// sites are the places of the source that name the remedy: FILE: the beginning of its text.
	sites []string
	// fails is a script that ends with an error, and the other text is a part of what it prints: the remedy.
	fails, says string
	// works are scripts that end well, after fails and in this order: one for each way that the remedy names.
	works []string
}

// TestRemedies: what a refusal names as its remedy is done, and then the same works.
func TestRemedies(t *testing.T) {
	dir := engine.TempDir(t, "/tmp", "agentjail-remedies-")
	b := engine.NewBundle(t, dir)
	text, err := json.Marshal(b.Spec)
	env.Check(t, err)
	for _, r := range remedies {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			d, w := engine.TempDir(t, "/etc", "agentjail-remedies-"), engine.Workspace(t, map[string]string{"f": "text\n"})
			env.Check(t, os.WriteFile(filepath.Join(d, "policy.toml"), nil, 0o644))
			bundle := filepath.Join(dir, filepath.Base(d))
			env.Check(t, os.Mkdir(bundle, 0o711))
			env.Check(t, os.Symlink(b.Rootfs, filepath.Join(bundle, "rootfs")))
			env.Check(t, os.WriteFile(filepath.Join(bundle, "template.json"), []byte(strings.ReplaceAll(string(text), `"path":"rootfs"`, `"path":"`+b.Rootfs+`"`)), 0o600))
			script := func(text string) (string, int) {
				cmd := exec.Command("timeout", "60", "/bin/sh", "-c", prelude+text)
				cmd.Dir = d
				cmd.Env = append(os.Environ(), "AGENTJAIL="+bin, "D="+d, "W="+w, "B="+bundle)
				out := engine.RunPrepared(t, cmd)
				return out.Stdout + out.Stderr, out.Code
			}
			out, code := script(r.fails)
			if code == 0 || !strings.Contains(out, r.says) {
				t.Fatalf("status %d, without %q:\n%s", code, r.says, out)
			}
			said := out
			for _, w := range r.works {
				if out, code := script(w); code != 0 {
					t.Errorf("the remedy was followed, %s: status %d\n%s\nThe refusal was:\n%s", w, code, out, said)
				}
			}
		})
	}
}

// TestEveryRemedyIsTried: each place of the source that names a remedy has a case, or stands in left.txt with the reason why none follows it. A
// line of that file has the reason, and each of the following that begins with a tab a place: FILE: the beginning of its text.
func TestEveryRemedyIsTried(t *testing.T) {
	claims := map[string]string{} // by the place
	for _, r := range remedies {
		for _, s := range r.sites {
			claims[s] = r.name
		}
	}
	reason := ""
	for line := range strings.Lines(string(env.Read(t, "left.txt"))) {
		line = strings.TrimSuffix(line, "\n")
		if place, ok := strings.CutPrefix(line, "\t"); ok {
			if other, twice := claims[place]; twice {
				t.Errorf("left.txt: %s: it has a case, or stands there twice: %s", place, other)
			}
			claims[place] = reason
		} else if reason = line; len(reason) < 20 {
			t.Errorf("left.txt: %q is no reason", line)
		}
	}
	used := map[string]bool{}
	for _, s := range sites(t) {
		found := false
		for place := range claims {
			if strings.HasPrefix(s.String(), place) {
				found, used[place] = true, true
			}
		}
		if !found {
			t.Errorf("no case follows the remedy of %s", s)
		}
	}
	for place, by := range claims {
		if !used[place] {
			t.Errorf("%s: no remedy of the source is there (%s)", place, by)
		}
	}
}
