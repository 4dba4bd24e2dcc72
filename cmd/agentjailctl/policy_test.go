package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/lifecycle"
)

// TestPolicyStatus: policy's commands have the status 0, and 1 for mistakes; tests/sandbox has wrong
// command lines.
func TestPolicyStatus(t *testing.T) {
	joinsPodman(t)
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.toml"), filepath.Join(dir, "bad.toml")
	for path, text := range map[string]string{good: "[policies.a]\n", bad: "limits.pids = \"many\"\n[policies.a]\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		want int
		text string
	}{
		{"policy validate " + good, 0, "is valid"},
		{"policy validate " + bad, 1, "line 1: limits.pids"},
		{"policy show --config " + good + " --policy a", 0, "limits.pids = 1024 # default"},
		{"policy show --config " + good + " --tighten limits.pids=7", 0, "limits.pids = 7 # --tighten"},
	} {
		out, err := call(t, strings.Fields(c.args)...)
		if err != nil {
			out += err.Error()
		}
		if lifecycle.Status(err) != c.want || !strings.Contains(out, c.text) {
			t.Errorf("%s: status %d, want %d: %.300s", c.args, lifecycle.Status(err), c.want, out)
		}
	}
}
