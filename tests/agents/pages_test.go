package agents

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/agents/lab"
	"agentjail.dev/tests/docs"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// pages are those about agents, with the program that each needs, a part of what it prints, and a command of its text.
var pages = []struct{ page, program, want, inline string }{
	{"docs/start/claude.md", "claude", lab.LastWord, ""},
	{"docs/start/codex.md", "codex", lab.LastWord, ""},
	{"docs/start/opencode.md", "opencode", lab.LastWord, ""},
	{"docs/start/python.md", "python3", lab.LastWord, ""},
	{"docs/start/mcp.md", "mcp-server-filesystem", `"result":{}`, "agentjail sandbox --agent files --home empty --read-only --workspace DIR -- DIR"},
	{"docs/start/ci.md", "make", "made by make", ""},
	{"docs/agents.md", "claude", lab.LastWord, ""},
}

// ping is what an MCP server answers.
const ping = `{"jsonrpc": "2.0", "id": 1, "method": "ping"}`

// agentOfOnesOwn is what the page has as agent.py.
const agentOfOnesOwn = `import json, os, urllib.request
r = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/responses", json.dumps({"type": "custom_tool_call_output"}, separators=(",", ":")).encode(),
                           {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
print(urllib.request.urlopen(r).read().decode())
`

// TestQuickStartCommandsWork: the commands of each quick start work as they are written.
func TestQuickStartCommandsWork(t *testing.T) {
	for _, p := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(p.page), ".md"), func(t *testing.T) {
			vars := append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+sudo(t)+":"+npmDir+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*") // the caller is not the owner here
			cmd := exec.Command("sh", "-euc", "command -v "+p.program)
			if cmd.Env = vars; cmd.Run() != nil {
				t.Skip(p.program + " is not installed (hack/npm-tools.sh)")
			}
			l := newLab(t, "echo fixed >made")
			dir := repository(t)
			small(t)
			_, value := keyFile(t)
			at := engine.TempDir(t, "/tmp", "agentjail-page-")
			for name, text := range map[string]string{"agent.py": agentOfOnesOwn, "Makefile": "test:\n\t@echo made by make\n"} {
				env.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
			}
			env.Check(t, errors.Join(os.WriteFile(filepath.Join(at, "key"), []byte(value), 0o600), os.Rename(dir, filepath.Join(at, "project"))))
			// `workspace diff` ends with 1 where there is a change.
			script := strings.ReplaceAll(docs.Script(t, p.page), "/root/anthropic.key", at+"/key")
			if lines := strings.Count(docs.Text(t, p.page), "\n"); lines > 30 && strings.HasPrefix(p.page, "docs/start/") {
				t.Errorf("%s has %d lines", p.page, lines)
			}
			if p.inline != "" {
				script += "echo '" + ping + "' | " + strings.ReplaceAll(p.inline, "DIR", filepath.Join(at, "project")) + "\n"
			}
			cmd = exec.Command("sh", "-uc", script)
			cmd.Dir, cmd.Env = at, vars
			out, err := cmd.CombinedOutput()
			keys, asked := l.Seen()
			if err != nil || strings.Count(string(out), p.want) < 1+min(1, len(p.inline)) {
				t.Errorf("%v\n%s\nrequests:\n%s", err, out, asked)
			}
			if _, err := os.Stat(filepath.Join(at, "project", "made")); err != nil && p.page == "docs/start/"+p.program+".md" {
				t.Errorf("what the agent wrote: %v", err)
			}
			if p.want == lab.LastWord && !strings.Contains(keys, value) {
				t.Errorf("the server was sent %q", keys)
			}
			t.Cleanup(func() {
				engine.Run(t, bin, "workspace", "discard", "fix")
				os.RemoveAll("/etc/agentjail/keys")
				os.RemoveAll("/etc/agentjail/agents")
			})
		})
	}
}

// sudo is a directory with a sudo that keeps the environment: this is root.
func sudo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	env.Check(t, os.WriteFile(filepath.Join(dir, "sudo"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755))
	return dir
}
