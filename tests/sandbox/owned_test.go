package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestOwnDirectories: of an agent's or a tool's own directory, the jail writes the data, and nothing that the host runs, absent or not, by any name.
func TestOwnDirectories(t *testing.T) {
	top := engine.Workspace(t, map[string]string{
		".claude/settings.json": "{}\n", ".claude/projects/p/s.jsonl": "", ".claude/history.jsonl": "", ".m2/repository/a.jar": "",
		".local/share/opencode/storage/s": "", "dot/claude/projects/s": "", ".ivy2/cache/x": "",
	})
	own := func(path string) string { return filepath.Join(top, path) }
	mountAt(t, own(".claude"), own("alias"))
	for _, c := range []struct{ name, dir, data, kept string }{
		{"an agent's", ".claude", "history.jsonl projects/p/s.jsonl new", "settings.json settings.local.json hooks/a agents/a skills/a plugins/a local/claude commands/a"},
		{"another name", "alias", "history.jsonl new2", "settings.json settings.local.json hooks/a plugins/a local/claude"},
		{"a part of it", ".claude/projects", "p/s.jsonl p/new", ""},
		{"a protected part", ".claude/settings.json", "", "."},
		{"a repository of jars", ".m2", "repository/a.jar repository/b/c", "settings.xml extensions.xml wrapper/a settings-security.xml"},
		{"of two parts", ".local/share/opencode", "storage/s log", "bin/rg plugins/a"},
		{"a cache", ".ivy2", "cache/y", "ivysettings.xml"},
	} {
		var script strings.Builder
		for at := range strings.FieldsSeq(c.data) {
			script.WriteString("mkdir -p $(dirname /x/" + at + "); echo data >>/x/" + at + " || echo not written: " + at + "\n")
		}
		for at := range strings.FieldsSeq(c.kept) {
			script.WriteString("( mkdir -p $(dirname /x/" + at + "); echo evil >>/x/" + at + " ) 2>/dev/null && echo written: " + at + "\n" +
				"( rm -rf /x/" + at + " && mkdir -p $(dirname /x/" + at + ") && echo evil >/x/" + at + " ) 2>/dev/null && echo replaced: " + at + "\n")
		}
		code, out, errs := sandbox(t, "-v", own(c.dir)+":/x", "--", "sh", "-c", script.String()+"true")
		if code != 0 || out != "" || errs != "" && strings.Contains(errs, "cannot") {
			t.Errorf("%s: status %d, %s%s", c.name, code, out, errs)
		}
	}
	for _, gone := range []string{".claude/settings.local.json", ".claude/hooks", ".claude/plugins", ".m2/settings.xml", ".m2/wrapper", ".claude/.vscode"} {
		if _, err := os.Lstat(own(gone)); err == nil {
			t.Errorf("%s stays", gone)
		}
	}
	// A view takes all, and apply leaves out what the host runs.
	policy := small(t)
	code, out, errs := inView(t, policy, own(".claude"), "mkdir hooks; echo evil >hooks/a; echo evil >settings.local.json; echo data >projects/n", "--view", "owned")
	t.Cleanup(func() { agentjail(t, "workspace", "discard", "owned") })
	if code != 0 {
		t.Fatalf("status %d, %s%s", code, out, errs)
	}
	if code, out := agentjail(t, "workspace", "apply", "owned"); code != 1 {
		t.Errorf("status %d, %s", code, out)
	}
	for at, want := range map[string]bool{"hooks/a": false, "settings.local.json": false, "projects/n": true} {
		if _, err := os.Lstat(own(".claude/" + at)); (err == nil) != want {
			t.Errorf("%s: applied %v", at, err == nil)
		}
	}
}

// TestHooksScripts: a script that a hook runs is not the jail's, whether it is there or not.
func TestHooksScripts(t *testing.T) {
	dir := engine.Workspace(t, map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/x": "", ".git/config": "[core]\n",
		".git/hooks/pre-commit": "#!/bin/sh\n./scripts/check.sh && ./scripts/absent.sh\n", "scripts/check.sh": "old\n", "scripts/free.sh": "", "main.go": "",
	})
	for _, script := range []string{"echo evil >scripts/check.sh", "rm -f scripts/check.sh; test ! -e scripts/check.sh", "echo evil >scripts/absent.sh", "mv scripts s2"} {
		if code, out, errs := sandbox(t, "-w", dir, "--", "sh", "-ec", script); code == 0 {
			t.Errorf("%s: %s%s", script, out, errs)
		}
	}
	if code, out, errs := sandbox(t, "-w", dir, "--", "sh", "-ec", "echo >scripts/free.sh; echo >main.go; echo >scripts/new.sh"); code != 0 {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
	if text := env.Read(t, filepath.Join(dir, "scripts/check.sh")); string(text) != "old\n" {
		t.Errorf("the script is %q", text)
	}
	if _, err := os.Lstat(filepath.Join(dir, "scripts/absent.sh")); err == nil {
		t.Error("the placeholder stays")
	}
	policy := engine.PolicyFile(t, "binds.unprotect = [\""+dir+"/scripts\"]\n")
	if code, out, errs := sandbox(t, "--config", policy, "-w", dir, "--", "sh", "-ec", "echo mine >scripts/check.sh"); code != 0 {
		t.Errorf("left to jails: status %d, %s%s", code, out, errs)
	}
}
