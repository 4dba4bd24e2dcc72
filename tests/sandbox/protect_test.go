package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// asOwner runs a command of the host's as the workspace's owner.
func asOwner(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "sh", "-ec", script)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// project is a workspace with a repository, a place to push to, a submodule and a further work tree.
func project(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git on this machine")
	}
	dir := engine.Workspace(t, nil)
	asOwner(t, dir, `
		export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x
		git init -q --bare remote.git
		git init -q lib; git -C lib commit -q --allow-empty -m one
		git init -q -b main repo; cd repo
		git remote add origin ../remote.git; git config user.name me; git config user.email me@x
		echo x >file; git add file; git commit -q -m one
		git -c protocol.file.allow=always submodule --quiet add ../lib lib; git commit -q -m lib
		git worktree add -q ../tree`)
	return dir
}

// everyday is what people and agents do with git, in the repository, and what git then states.
var everyday = []struct{ name, script, says string }{
	{"status shows nothing that was not there", "git status --porcelain", ""},
	{"the settings are read", "git config user.name", "me\n"},
	{"a setting is made", "git config core.editor vi && git config core.editor", "vi\n"},
	{"a branch and a commit", "git checkout -q -b topic && echo y >>file && git commit -qam two && git log --oneline | wc -l", "3\n"},
	{"a push that sets the upstream", "git push -q -u origin topic && git rev-parse --abbrev-ref @{u}", "origin/topic\n"},
	{"fetch and pull", "git fetch -q && git pull -q && git status -sb", "## topic...origin/topic\n"},
	{"rename a branch", "git branch -m topic2 && git branch --show-current", "topic2\n"},
	{"move files to and from the submodule's directory", "mv file lib/f && mv lib/f file && git mv file g && git status --porcelain", "R  file -> g\n"},
	{"stash and its return", "git stash -q && git stash pop -q && git status --porcelain", " D file\nA  g\n"},
	{"reset, merge, rebase", "git reset -q --hard && git checkout -q main && git merge -q topic2 && git rebase -q topic2 && git log --oneline | wc -l", "3\n"},
	{"a further remote", "git remote add other ../lib && git fetch -q other && git remote", "origin\nother\n"},
	{"a submodule's commit", "cd lib && git config user.name me && git config user.email m@x && git commit -q --allow-empty -m two && git log --oneline | wc -l", "2\n"},
	{"submodule update", "git submodule -q update && git submodule status | cut -c1", " \n"},
	{"a further work tree's commit", "cd ../tree && echo z >z && git add z && git commit -qm z && git log --oneline | wc -l", "3\n"},
	{"a work tree that is made inside", "git worktree add -q ../tree2 && git -C ../tree2 status --porcelain && git worktree remove ../tree2", ""},
	{"sparse checkout", "git sparse-checkout set lib 2>/dev/null && git sparse-checkout disable && git status --porcelain", ""},
	{"a repository that is made inside", "git init -q ../new && cd ../new && git -c user.name=a -c user.email=a@x commit -q --allow-empty -m a && git clone -q . ../clone && ls -A ../clone", ".git\n"},
	{"housekeeping", "git gc -q && git fsck 2>&1 | grep -c error", "0\n"},
}

// TestProtectedGit: git works in a workspace whose repositories are protected, and the host's settings stay.
func TestProtectedGit(t *testing.T) {
	dir := project(t)
	configs := func() string {
		var all []string
		for _, c := range []string{"repo/.git/config", "repo/.git/modules/lib/config", "remote.git/config"} {
			text := env.Read(t, filepath.Join(dir, c))
			all = append(all, string(text))
		}
		return strings.Join(all, "---\n")
	}
	before := configs()
	var script strings.Builder
	script.WriteString("cd repo\nexport GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always\n")
	for _, e := range everyday {
		script.WriteString("echo '== " + strings.ReplaceAll(e.name, "'", "") + "'\n(set -e; " + e.script + ") 2>&1\n")
	}
	code, out, errs := sandbox(t, "--workspace", dir, "--", "sh", "-c", script.String())
	if code != 0 && !strings.Contains(out, "== housekeeping") {
		t.Fatalf("status %d\n%s%s", code, out, errs)
	}
	_, rest, _ := strings.Cut(out, "== ")
	for i, part := range strings.Split(rest, "== ") {
		name, said, _ := strings.Cut(part, "\n")
		if said != everyday[i].says {
			t.Errorf("%s: %q, want %q", name, said, everyday[i].says)
		}
	}
	if after := configs(); after != before {
		t.Errorf("the host's settings were\n%s\nand are\n%s", before, after)
	}
	if got := asOwner(t, dir, "cd repo; git log --oneline main | wc -l; ls -A"); got != "3\n.git\n.gitmodules\ng\nlib\n" && !strings.HasPrefix(got, "3\n") {
		t.Errorf("the host sees %q", got)
	}
	if _, err := os.Lstat(filepath.Join(dir, "repo/.vscode")); err == nil {
		t.Error("a placeholder is left")
	}
}

// TestProtectedNpm: packages are installed, removed and installed again, whatever settings they ship.
func TestProtectedNpm(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("no npm on this machine")
	}
	dir := project(t)
	asOwner(t, dir, `cd repo; mkdir -p dep/.vscode; echo '{"name":"dep","version":"1.0.0"}' >dep/package.json; echo {} >dep/.vscode/x.json
		echo '{"name":"me","version":"1.0.0","dependencies":{"dep":"file:dep.tgz"}}' >package.json; tar czf dep.tgz --transform s,^dep,package, dep`)
	code, out, errs := sandbox(t, "--workspace", dir, "--", "sh", "-ec",
		"cd repo; npm install --offline --no-audit --no-fund >/dev/null; npm ci --offline --no-audit --no-fund >/dev/null; npm uninstall --offline dep >/dev/null; npm install --offline ./dep.tgz >/dev/null; ls node_modules/dep -A")
	if code != 0 || out != ".vscode\npackage.json\n" {
		t.Errorf("status %d: %s\n%s", code, out, errs)
	}
	// A second jail, which finds what the first one has installed.
	if code, out, errs := sandbox(t, "--workspace", dir, "--", "sh", "-ec", "cd repo; rm -rf node_modules; npm ci --offline --no-audit --no-fund >/dev/null; ls node_modules"); code != 0 || out != "dep\n" {
		t.Errorf("status %d: %s\n%s", code, out, errs)
	}
}

// TestGitMark: a file ".git" that leads git nowhere, as a package manager's cache has one, can be written to, and what is written ends with the
// jail. A file in place of a directory in which the host would look for settings is the project's.
func TestGitMark(t *testing.T) {
	dir := engine.Workspace(t, map[string]string{"cache/.git": "", "kernel/.config": "CONFIG_64BIT=y\n"})
	code, out, errs := sandbox(t, "--workspace", dir, "--", "sh", "-ec",
		": >cache/.git; echo gitdir: x >cache/.git; cat cache/.git; ! rm -f cache/.git; echo y >n; mv n kernel/.config")
	if code != 0 || out != "gitdir: x\n" {
		t.Errorf("status %d: %q %s", code, out, errs)
	}
	for name, want := range map[string]string{"cache/.git": "", "kernel/.config": "y\n"} {
		if text := env.Read(t, filepath.Join(dir, name)); string(text) != want {
			t.Errorf("%s on the host: %q, want %q", name, text, want)
		}
	}
}

// TestIgnoredRepositoriesGo: a repository that the project ignores can be removed in a view, and an apply removes it as a whole. No other
// repository goes, what is made in its place does not come, and what settings name stays.
func TestIgnoredRepositoriesGo(t *testing.T) {
	engine.NeedsViews(t)
	dir, policy := project(t), small(t)
	asOwner(t, dir, `
		export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x
		cd repo; printf 'vendor/\n/.store/\n**/.terraform/*\n' >.gitignore; mkdir -p .store/hooks; echo x >.store/hooks/pre-commit; git config core.hooksPath .store/hooks
		for r in vendor/gone vendor/anew vendor/moved infra/.terraform/modules/m node_modules/n kept/own; do
			git init -q $r; mkdir $r/.vscode; echo {} >$r/.vscode/tasks.json; git -C $r commit -q --allow-empty -m x
		done`)
	name := filepath.Base(dir)
	t.Cleanup(func() { engine.Run(t, bin, "workspace", "discard", name) })
	code, out, errs := inView(t, policy, dir, `cd repo; rm -r vendor/gone infra/.terraform/modules/m node_modules/n kept/own .store; mv vendor/moved vendor/there
		rm -r vendor/anew; git init -q vendor/anew; git -C vendor/anew config core.fsmonitor ./evil; echo made >vendor/anew/file`, "--view", name)
	if code != 0 {
		t.Fatalf("status %d: %s%s", code, out, errs)
	}
	r := engine.Run(t, bin, "workspace", "apply", name)
	if r.Code != 1 || !strings.Contains(r.Stderr, "left out: repo/.store") {
		t.Errorf("the apply: %s", r)
	}
	const want = "infra/.terraform/modules kept/own/.git no-fsmonitor node_modules vendor/anew/.git vendor/anew/file vendor/moved/.git"
	got := asOwner(t, dir, `cd repo; cat .store/hooks/pre-commit >/dev/null
		ls -d infra/.terraform/modules infra/.terraform/modules/* kept/own/.git node_modules node_modules/* vendor/gone vendor/anew/.git vendor/anew/file vendor/moved/.git 2>/dev/null || true
		git -C vendor/anew config core.fsmonitor || echo no fsmonitor`)
	lines := strings.Fields(strings.ReplaceAll(got, "no fsmonitor", "no-fsmonitor"))
	slices.Sort(lines)
	if got := strings.Join(lines, " "); got != want {
		t.Errorf("the host has\n%s, want\n%s", got, want)
	}
}
