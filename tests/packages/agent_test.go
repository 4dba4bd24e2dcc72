package packages

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/tests/agents/lab"
	"agentjail.dev/tests/env"
)

// npmDir is where hack/npm-tools.sh installs what npm has.
const npmDir = "/var/cache/agentjail-npm/node_modules/.bin"

// inNetwork calls f on a thread in the machine's network.
func (m *machine) inNetwork(f func() error) error {
	return thread.Own(func() error {
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.pid))
		if err != nil {
			return err
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering the machine's network: %w", err)
		}
		return f()
	})
}

// work is that of the agent: it looks for the key, for the names that it has, and for one that it does not have.
const work = `echo 'print("mended")' >fix.py; git status --short >status; env >seen; ls -A ~ >>seen
cat /proc/*/environ /etc/agentjail/keys/* >>seen 2>&1; for n in api.anthropic.com console.anthropic.com platform.claude.com www.example.test; do
getent hosts $n >/dev/null && echo $n; done >names; true`

// TestAgent: once the package is installed, one command has an agent at work in a git repository, with three names and a key that it
// cannot read.
func TestAgent(t *testing.T) {
	if _, err := os.Stat(filepath.Join(npmDir, "claude")); err != nil {
		t.Skip("not installed (hack/npm-tools.sh):", err)
	}
	m := newMachine(t)
	l, files := lab.Behind(t, m.inNetwork, work)
	key := "sk-real-" + rand.Text()
	files["/etc/agentjail/keys/anthropic"] = []byte(key + "\n")
	m.must("dpkg", "--install", m.give(deb(first)))
	m.must("mkdir", "-m", "700", "/etc/agentjail/keys")
	for at, text := range files {
		env.Check(t, os.WriteFile(m.path(at), text, 0o600))
	}
	m.must("sh", "-euc", "chmod 644 /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; ln -s "+npmDir+"/claude /usr/local/bin/claude; "+
		"git init -q -b main /tmp/project; chown -R 1000:1000 /tmp/project")

	r := m.run("sh", "-c", `cd /tmp/project && exec agentjail sandbox --agent claude -- -p work --dangerously-skip-permissions`)
	keys, asked := l.Seen()
	if r.Code != 0 || !strings.Contains(r.Stdout, lab.LastWord) {
		t.Fatalf("%v\nrequests:\n%s", r, asked)
	}
	t.Log(r.Stderr)
	if want := "api.anthropic.com X-Api-Key: " + key + "\n"; !strings.Contains(keys, want) || strings.Contains(keys, "agentjail") {
		t.Errorf("the server was sent %q, want %q", keys, want)
	}
	if want := "  names       api.anthropic.com:443, console.anthropic.com:443, platform.claude.com:443\n"; !strings.Contains(r.Stderr, want) {
		t.Errorf("%q is not in\n%s", want, r.Stderr)
	}
	if had := m.must("ls", "-A", "/tmp/project"); had != ".git" {
		t.Errorf("before the view is applied: %s", had)
	}
	view := regexp.MustCompile(`is in view (\S+):`).FindStringSubmatch(r.Stderr)
	if view == nil {
		t.Fatalf("no view is named in\n%s", r.Stderr)
	}
	m.must("agentjail", "workspace", "apply", view[1])
	if out := m.must("sh", "-euc", "cd /tmp/project; python3 fix.py; stat -c %u fix.py; grep fix.py status"); out != "mended\n1000\n?? fix.py" {
		t.Errorf("the agent's work: %q", out)
	}
	if out := m.must("cat", "/tmp/project/names"); out != "api.anthropic.com\nconsole.anthropic.com\nplatform.claude.com" {
		t.Errorf("names that the agent has: %q", out)
	}
	if seen := m.must("cat", "/tmp/project/seen"); strings.Contains(seen, key) || !strings.Contains(seen, "agentjail-holds-key") {
		t.Errorf("the agent saw\n%s", seen)
	}
}
