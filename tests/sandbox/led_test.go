package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentjail.dev/tests/engine"
)

// TestLedToByGit: the host's git runs nothing that a jail wrote to a view, by whatever way a setting leads to it, once the view is applied
// without --protected; with it, git does.
func TestLedToByGit(t *testing.T) {
	const plant = `plant() { printf '#!/bin/sh\necho evil >&2; touch "$(git rev-parse --show-toplevel)/ran"\n' >$1; chmod 755 $1; }; `
	policy := small(t)
	for _, c := range []struct{ name, old, view string }{
		{"a link", "git config core.hooksPath tools/hooks", "mkdir -p evil/hooks; plant evil/hooks/post-commit; ln -s evil tools"},
		{"a chain", "git config core.hooksPath tools/hooks", "mkdir -p e/f/hooks w; plant e/f/hooks/post-commit; ln -s w/../l tools; ln -s ./e/f l"},
		{"a link there already", "git config core.hooksPath tools/hooks; mkdir good; touch good/x; ln -s good tools", "mkdir good/hooks; plant good/hooks/post-commit"},
		{"a link in place of a directory", "git config core.hooksPath tools/hooks; mkdir tools; touch tools/x", "rm -r tools; mkdir -p evil/hooks; plant evil/hooks/post-commit; ln -s evil tools"},
		{"a rename", "git config core.hooksPath .husky; mkdir evil; touch evil/x", "plant evil/post-commit; mv evil .husky"},
		{"a rename on the way", "git config core.hooksPath tools/hooks; mkdir -p evil/hooks; touch evil/hooks/x", "plant evil/hooks/post-commit; mv evil tools"},
		{"a directory for a file", "git config core.hooksPath tools/hooks; touch tools", "rm tools; mkdir -p tools/hooks; plant tools/hooks/post-commit"},
		{"an absolute link", "git config core.hooksPath tools/hooks; ln -s $PWD/good tools", "mkdir -p good/hooks; plant good/hooks/post-commit"},
		{"a link of /proc", "git config core.hooksPath tools/hooks; ln -s /proc/self/cwd/good tools", "mkdir -p good/hooks; plant good/hooks/post-commit"},
		{"an include by a link", "git config include.path ../cfg/more", "mkdir c hk; ln -s c cfg; printf '[core]\\n\\thooksPath = hk\\n' >c/more; plant hk/post-commit"},
		{"a program by a link", "git config core.fsmonitor bin/watch; mkdir lib; touch lib/watch; chmod 755 lib/watch; ln -s lib bin", "plant lib/watch"},
		{"a mode", "git config core.hooksPath h; mkdir h s; printf '#!/bin/sh\\ntouch ran\\n' >s/x; ln s/x h/post-commit", "chmod 755 s/x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := engine.Workspace(t, nil)
			name := "v" + filepath.Base(dir)
			t.Cleanup(func() { agentjail(t, "workspace", "discard", name) })
			host := func(script string) string {
				cmd := exec.Command("sh", "-ec", script)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME=/nonexistent",
					"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@h", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@h")
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v: %s", script, err, out)
				}
				return string(out)
			}
			host("git init -q -b main . && echo a >a && git add a && git commit -qm first; " + c.old)
			if code, out, errs := inView(t, policy, dir, plant+c.view+"; echo 2 >a", "--view", name); code != 0 {
				t.Fatalf("status %d, %q, %q", code, out, errs)
			}
			ran := func() bool {
				host("rm -f ran; echo x >>b; git add b; git commit -qm next")
				_, err := os.Lstat(dir + "/ran")
				return err == nil
			}
			code, out := agentjail(t, "workspace", "apply", "--links", name)
			if code != 1 || !strings.Contains(out, "a protected path") {
				t.Errorf("status %d, %s", code, out)
			}
			if text, err := os.ReadFile(dir + "/a"); err != nil || string(text) != "2\n" {
				t.Errorf("a: %q %v: %s", text, err, out)
			}
			if ran() {
				t.Errorf("git ran what the jail wrote: %s", out)
			}
			code, out = agentjail(t, "workspace", "apply", "--links", "--protected", name)
			if !ran() {
				t.Errorf("the jail's program does not run in the end: status %d, %s%s", code, out, tree(t, dir))
			}
		})
	}
}
