package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestSudoRule: a rule of sudo's that permits agentjail's commands gives their caller no right on files, and none on other users' jails.
func TestSudoRule(t *testing.T) {
	engine.NeedsRoot(t, "it is called by sudo")
	if _, err := exec.LookPath("sudo"); err != nil {
		t.Skip("there is no sudo")
	}
	by, err := user.LookupId("65534")
	if err != nil {
		t.Skip(err)
	}
	rule := "/etc/sudoers.d/agentjail-test-" + strconv.Itoa(os.Getpid())
	// The form that docs/start/ci.md has.
	env.Check(t, os.WriteFile(rule, []byte(by.Username+" ALL=(root) NOPASSWD: "+bin+" sandbox *, "+bin+" git *, "+bin+" receipt *, "+bin+" workspace *, "+bin+" ls\n"), 0o440))
	t.Cleanup(func() { os.Remove(rule) })
	top, err := os.MkdirTemp("/var/tmp", "agentjail-sudo-")
	env.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(top) })
	uid, gid := env.Number(t, by.Uid), env.Number(t, by.Gid)
	mine, roots, others := filepath.Join(top, "mine"), filepath.Join(top, "roots"), filepath.Join(top, "others")
	secret := filepath.Join(roots, "secret")
	env.Check(t, errors.Join(os.Chmod(top, 0o755), os.Mkdir(mine, 0o755), os.Mkdir(roots, 0o700), os.Mkdir(others, 0o755),
		os.Chown(mine, uid, gid), os.Chown(others, 12345, 12345),
		os.WriteFile(secret, []byte("root-secret = 1\n"), 0o600), os.WriteFile(filepath.Join(others, "private"), []byte("private"), 0o600),
		os.Chown(filepath.Join(others, "private"), 12345, 12345),
		os.Symlink(secret, filepath.Join(mine, "link")), os.WriteFile(filepath.Join(mine, ".git"), []byte("gitdir: "+roots+"\n"), 0o644)))
	sudo := func(args ...string) engine.Result {
		t.Helper()
		return engine.Run(t, "setpriv", append([]string{"--reuid", by.Uid, "--regid", by.Gid, "--clear-groups", "sudo", "-n", bin}, args...)...)
	}
	r := sudo("sandbox", "--no-tty", "-w", mine, "--", "sh", "-c", "echo x >made; id -u")
	if r.Code != 0 || !strings.Contains(r.Stdout, by.Uid) {
		t.Fatalf("the own directory: %s", r)
	}
	ids := strings.Fields(sudo("ls").Must(t))
	own := ""
	for _, f := range ids {
		if strings.HasPrefix(f, "sandbox-") {
			own = f
			break
		}
	}
	page := filepath.Join(mine, "page.html")
	sudo("receipt", "--html", page, own).Must(t)
	env.Equal(t, "the page's owner", env.Owner(t, page), by.Uid+":"+by.Gid)
	// Root's own jail and another user's, of which this one must not learn.
	engine.Run(t, bin, "sandbox", "--no-tty", "-w", others, "--", "true").Must(t)
	list := engine.Run(t, bin, "ls").Must(t)
	rootsJail := strings.Fields(strings.Split(list, "\n")[1])[0]
	if strings.Contains(sudo("ls").Must(t), rootsJail) {
		t.Error("root's own jail is listed")
	}
	for name, args := range map[string][]string{
		"another's directory":      {"sandbox", "--no-tty", "-w", others, "--", "cat", "private"},
		"another's directory, -v":  {"sandbox", "--no-tty", "-v", others + ":/x", "--", "cat", "/x/private"},
		"root's directory":         {"sandbox", "--no-tty", "-v", roots + ":/x:ro", "--", "cat", "/x/secret"},
		"git in another's":         {"git", others, "status"},
		"git in root's, by a file": {"git", mine, "status"},
		"a page in root's":         {"receipt", "--html", filepath.Join(roots, "page"), own},
		"root's own jail":          {"receipt", rootsJail},
		"a receipt of root's":      {"receipt", "--verify", "--against", secret},
		"a receipt into root's":    {"sandbox", "--no-tty", "-w", mine, "--receipt", filepath.Join(roots, "page"), "--", "true"},
		"an id into root's":        {"sandbox", "--no-tty", "-w", mine, "--id-file", filepath.Join(roots, "page"), "--", "true"},
		"a link to root's":         {"receipt", "--verify", "--against", filepath.Join(mine, "link")},
		"a policy of root's":       {"sandbox", "--no-tty", "--config", secret, "--", "true"},
		"a key of root's":          {"sandbox", "--no-tty", "--agent", "claude", "--key", secret, "--", "true"},
	} {
		r := sudo(args...)
		if r.Code == 0 || strings.Contains(r.Stdout+r.Stderr, "private\n") || strings.Contains(r.Stdout+r.Stderr, "root-secret") {
			t.Errorf("%s: %s", name, r)
		}
	}
	// Commands that the rule does not permit, with root's own rule.
	policy, bundle := filepath.Join(mine, "policy.toml"), filepath.Join(mine, "bundle")
	const spec = `{"ociVersion": "1.0.2", "process": {"args": ["true"], "cwd": "/"}, "root": {"path": "."}, "mounts": [{"destination": "/x", "type": "bind", "source": %q}]}`
	env.Check(t, errors.Join(os.WriteFile(policy, nil, 0o644), os.Mkdir(bundle, 0o755),
		os.WriteFile(filepath.Join(bundle, "config.json"), fmt.Appendf(nil, spec, filepath.Join(roots, "nothing")), 0o644)))
	for want, args := range map[string][]string{
		"another policy file is root's": {"--config", policy, "receipt", "--sign", own},
		"permission denied":             {"explain", bundle},
	} {
		r := engine.Run(t, "env", append([]string{"SUDO_UID=" + by.Uid, "SUDO_GID=" + by.Gid, bin}, args...)...)
		if r.Code == 0 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%s: %s", args, r)
		}
	}
	if _, err := os.Lstat(filepath.Join(mine, "receipt.key")); err == nil {
		t.Error("a key was made in another's directory")
	}
	if _, err := os.Lstat(filepath.Join(roots, "page")); err == nil {
		t.Error("a page was written where root alone may")
	}
}
