package agents

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/agents/lab"
	"agentjail.dev/tests/engine"
)

// pages are the quick starts, with the program that each needs, and a part of what it prints.
var pages = []struct{ page, program, want string }{
	{"claude", "claude", lab.LastWord},
	{"codex", "codex", lab.LastWord},
	{"opencode", "opencode", lab.LastWord},
	{"python", "python3", lab.LastWord},
	{"mcp", "mcp-server-filesystem", `"result":{}`},
	{"ci", "make", "made by make"},
}

// script is a page's commands.
func script(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs/start", page+".md"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(text, []byte("\n")); lines > 30 {
		t.Errorf("%s has %d lines", page, lines)
	}
	var out strings.Builder
	for i, part := range strings.Split(string(text), "```") {
		if code, is := strings.CutPrefix(part, "sh\n"); is && i%2 == 1 {
			out.WriteString(code)
		}
	}
	if out.Len() == 0 {
		t.Fatalf("%s has no commands", page)
	}
	return out.String()
}

// agentOfOnesOwn is what the page has as agent.py.
const agentOfOnesOwn = `import json, os, urllib.request
r = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/responses", json.dumps({"type": "custom_tool_call_output"}, separators=(",", ":")).encode(),
                           {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
print(urllib.request.urlopen(r).read().decode())
`

// TestPages: the commands of each quick start work as they are written.
func TestPages(t *testing.T) {
	for _, p := range pages {
		t.Run(p.page, func(t *testing.T) {
			env := append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+sudo(t)+":"+npmDir+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*") // the caller is not the owner here
			cmd := exec.Command("sh", "-euc", "command -v "+p.program)
			if cmd.Env = env; cmd.Run() != nil {
				t.Skip(p.program + " is not installed (hack/npm-tools.sh)")
			}
			l := newLab(t, "echo fixed >made")
			dir := repository(t)
			small(t)
			_, value := keyFile(t)
			at := engine.TempDir(t, "/tmp", "agentjail-page-")
			for name, text := range map[string]string{"agent.py": agentOfOnesOwn, "Makefile": "test:\n\t@echo made by make\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.WriteFile(filepath.Join(at, "key"), []byte(value), 0o600), os.Rename(dir, filepath.Join(at, "project"))); err != nil {
				t.Fatal(err)
			}
			// `workspace diff` ends with 1 where there is a change.
			cmd = exec.Command("sh", "-uc", script(t, p.page))
			cmd.Dir, cmd.Env = at, env
			out, err := cmd.CombinedOutput()
			keys, asked := l.Seen()
			if err != nil || !strings.Contains(string(out), p.want) {
				t.Errorf("%v\n%s\nrequests:\n%s", err, out, asked)
			}
			if _, err := os.Stat(filepath.Join(at, "project", "made")); err != nil && p.page == p.program {
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
	if err := os.WriteFile(filepath.Join(dir, "sudo"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
