package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestTerminalOutputIsEscaped: what a bundle names, and what looks for a jail by another name, reaches no
// terminal as it is: escape sequences and marks that turn a text around are written out, and a
// program that reads JSON gets the names unchanged.
func TestTerminalOutputIsEscaped(t *testing.T) {
	needAgentjail(t)
	t.Parallel()
	under := env.Get(t, engine.UnderTest)
	const name = "a\u202egnp.exe\u200b\u2066\u009b31m\x7f"
	base := filepath.Join(docker.Dir, "printed-"+name)
	env.Check(t, os.Mkdir(base, 0o711))
	b := engine.NewBundle(t, base)
	b.Spec.Process.Args = []string{"sleep", "3600"}
	b.Spec.Annotations = map[string]string{"org.example": name, name: "x"}
	b.Spec.Hostname = "h"
	c := engine.Caller{Path: under, Args: []string{"--root", filepath.Join(docker.Dir, "printed-state")}}
	const id = "e2e-printed"
	t.Cleanup(func() { _, _, _ = b.Call(t, c, "delete", "--force", id) })
	if _, errOut, err := b.Call(t, c, "run", "--detach", "--bundle", b.Dir, id); err != nil {
		t.Fatal(err, errOut)
	}
	for _, args := range [][]string{
		{"state", id},
		{"list", "--format", "json"},
		{"list"},
		{"inspect", "--json", id},
		{"explain", "--json", b.Dir},
		{"journal", "--json"},
		{"denied", "--json", id},
		{"receipt", "--json", id},
		{"state", name},
		{"delete", name},
		{"create", "--bundle", base, "e2e-printed-none"},
		{"kill", id, name},
	} {
		out, errOut, _ := b.Call(t, c, args...)
		for _, r := range out + errOut {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%q prints %+q", args, out+errOut)
				break
			}
		}
	}
	out, _, _ := b.Call(t, c, "state", id)
	var s struct {
		Bundle      string
		Annotations map[string]string
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.Bundle != b.Dir || s.Annotations["org.example"] != name || s.Annotations[name] != "x" {
		t.Errorf("%v: %+q", err, out)
	}
}

// TestBadIDsAreRefused: what cannot be an id is refused by every verb with runc's message, and what begins
// with "-" too, which a delegate would take for an option.
func TestBadIDsAreRefused(t *testing.T) {
	needAgentjail(t)
	t.Parallel()
	under := env.Get(t, engine.UnderTest)
	b := engine.NewBundle(t, docker.Dir)
	b.Spec.Process.Args = []string{"true"}
	c := engine.Caller{Path: under, Args: []string{"--root", filepath.Join(b.Dir, "state")}}
	for _, id := range []string{"-x", "--help", "-", ".", "..", "a/b", "a b", "a\u202eb", strings.Repeat("a", 1025)} {
		for _, args := range [][]string{
			{"create", "--bundle", b.Dir, "--", id},
			{"run", "--bundle", b.Dir, "--", id},
			{"start", "--", id},
			{"state", "--", id},
			{"kill", "--", id, "KILL"},
			{"kill", "--", id},
			{"delete", "--", id},
			{"delete", "--force", "--", id},
			{"pause", "--", id},
			{"resume", "--", id},
			{"ps", "--", id},
			{"events", "--stats", "--", id},
			{"exec", "--", id, "true"},
			{"update", "--memory", "67108864", "--", id},
		} {
			out, errOut, err := b.Call(t, c, args...)
			if err == nil || out != "" || !strings.Contains(errOut, "invalid container ID format") {
				t.Errorf("%q: %v: %s%s", args, err, out, errOut)
			}
		}
	}
}
