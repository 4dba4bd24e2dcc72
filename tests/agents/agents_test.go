package agents

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/agents/lab"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// npmDir is where hack/npm-tools.sh installs what npm has.
const npmDir = "/var/cache/agentjail-npm/node_modules/.bin"

// work is that of an agent in a jail: it looks for the key, for names, and for a name that it may not reach.
const work = `id -un >made; env >seen; ls -A ~ >>seen; cat /proc/*/environ >>seen 2>/dev/null; cat KEY >>seen 2>&1
git status --short >status; getent hosts www.example.test >>status; touch ~/kept; true`

// called are the arguments by which each agent does a piece of work without a person.
var called = []struct {
	agent, header string
	direct        bool
	args          []string
}{
	{"claude", "api.anthropic.com X-Api-Key: ", false, []string{"-p", "work", "--dangerously-skip-permissions"}},
	{"codex", "api.openai.com Authorization: Bearer ", true, []string{"exec", "work"}},
	{"opencode", "api.anthropic.com X-Api-Key: ", true, []string{"run", "--auto", "work"}},
}

// repository is a git repository of uid 1000.
func repository(t *testing.T) string {
	t.Helper()
	dir := engine.TempDir(t, "/tmp", "agentjail-agents-")
	if out, err := exec.Command("git", "init", "-q", "-b", "main", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("chown", "-R", "1000:1000", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// keyFile is a key that only root can read.
func keyFile(t *testing.T) (path, value string) {
	t.Helper()
	dir, err := os.MkdirTemp("/etc/agentjail", "keys-")
	env.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path, value = filepath.Join(dir, "key"), "sk-real-"+rand.Text()
	env.Check(t, os.WriteFile(path, []byte(value+"\n"), 0o600))
	return path, value
}

// sandboxIn calls `agentjail sandbox` in a directory, with the agents in PATH.
func sandboxIn(t *testing.T, dir string, args ...string) engine.Result {
	t.Helper()
	cmd := exec.Command(bin, append([]string{"sandbox"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PWD="+dir, "PATH="+npmDir+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	return engine.RunPrepared(t, cmd)
}

// newLab makes a lab behind this process's host.
func newLab(t *testing.T, command string) *lab.Lab {
	t.Helper()
	l, files := lab.Behind(t, func(f func() error) error { return f() }, command)
	t.Cleanup(func() { _ = env.IP("link del wan") })
	for at, text := range files {
		over(t, at, text)
	}
	return l
}

// over mounts a file with this text over a file of the host.
func over(t *testing.T, at string, text []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	env.Check(t, os.WriteFile(path, text, 0o644))
	env.Check(t, unix.Mount(path, at, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

// small has views of 64 MiB: each is allocated as a whole.
func small(t *testing.T) {
	t.Helper()
	const policy = "/etc/agentjail/config.toml"
	env.Check(t, os.WriteFile(policy, []byte("[workspace]\nsize = \"64MiB\"\nfiles = 4096\n"), 0o644))
	t.Cleanup(func() { os.Remove(policy) })
}

// apply takes over what an agent wrote in a view, and drops the view: until then the directory is as it was.
func apply(t *testing.T, dir, view string) {
	t.Helper()
	if had, err := os.ReadDir(dir); err != nil || len(had) != 1 {
		t.Errorf("before the view is applied: %v, %v", had, err)
	}
	for _, verb := range []string{"apply", "discard"} {
		if r := engine.Run(t, bin, "workspace", verb, view); r.Code != 0 {
			t.Error(r)
		}
	}
}

// TestAgents: one command has an agent at work in a repository, with a few names and a key that it cannot read.
func TestAgents(t *testing.T) {
	for _, c := range called {
		t.Run(c.agent, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(npmDir, c.agent)); err != nil {
				t.Skip("not installed (hack/npm-tools.sh):", err)
			}
			dir := repository(t)
			key, value := keyFile(t)
			l := newLab(t, strings.ReplaceAll(work, "KEY", key))
			small(t)
			how := []string{"--agent", c.agent, "--key", key, "--view", "view-" + c.agent}
			if c.direct {
				how = append(how[:4], "--direct")
			}
			r := sandboxIn(t, dir, slices.Concat(how, []string{"--"}, c.args)...)
			keys, asked := l.Seen()
			if r.Code != 0 || !strings.Contains(r.Stdout, lab.LastWord) {
				t.Fatalf("%v\nrequests:\n%s", r, asked)
			}
			if !strings.Contains(keys, c.header+value+"\n") || strings.Contains(keys, "agentjail") {
				t.Errorf("the server was sent %q, want %s%s", keys, c.header, value)
			}
			if !c.direct {
				apply(t, dir, "view-"+c.agent)
			}
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(dir, "made"), &st); err != nil || st.Uid != 1000 {
				t.Errorf("the agent's file: %v, uid %d", err, st.Uid)
			}
			seen, err := os.ReadFile(filepath.Join(dir, "seen"))
			if err != nil || bytes.Contains(seen, []byte(value)) || !bytes.Contains(seen, []byte("agentjail-holds-key")) {
				t.Errorf("%v: the agent saw\n%s", err, seen)
			}
			status, _ := os.ReadFile(filepath.Join(dir, "status"))
			if !strings.Contains(string(status), "made") || strings.Contains(string(status), "www.example.test") {
				t.Errorf("git status and a name: %q", status)
			}
			if names := "  names       api.anthropic.com:443, console.anthropic.com:443, platform.claude.com:443\n"; c.agent == "claude" && !strings.Contains(r.Stderr, names) {
				t.Errorf("%q is not in\n%s", names, r.Stderr)
			}
			for _, want := range []string{"  workspace   " + dir, "  home        ", "  names       api.", "  credential  ", "refused: ", "agentjail denied sandbox-"} {
				if !strings.Contains(r.Stderr, want) {
					t.Errorf("%q is not in\n%s", want, r.Stderr)
				}
			}
		})
	}
}
