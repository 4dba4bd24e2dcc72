package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/lifecycle"
)

// TestPolicyStatus: policy's commands have the status 0, 1 for mistakes, 2 for a wrong command line
// and 125 where there is nothing to read; what is written beside a command is not ignored.
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
		{"policy validate " + dir + "/none", 125, "no such file"},
		{"policy validate a b", 2, "takes at most [FILE]"},
		{"policy show --config " + good + " --policy a", 0, "limits.pids = 1024 # default"},
		{"policy show --config " + good + " --policy b", 1, "no [policies.b]"},
		{"policy show --config " + bad, 1, "whole number"},
		{"policy show --config " + good + " --tighten limits.pids=7", 0, "limits.pids = 7 # --tighten"},
		{"policy show --config " + good + " --tighten limits.pids=7 --tighten limits.pids=8", 2, "given as"},
		{"policy show --config " + good + " --tighten limits.pids=9000", 1, "tighter"},
		{"policy show x", 2, "takes no argument"},
		{"policy schema", 0, "json-schema.org"},
		{"policy schema x", 2, "takes no argument"},
		{"install docker surplus", 2, "takes no argument"},
		{"check surplus", 2, "takes no argument"},
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
