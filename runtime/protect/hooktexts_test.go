package protect

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/pathname"
)

// TestHookTexts: scripts of the tree that hooks run are kept, absent or not, and what hooks only read is not.
func TestHookTexts(t *testing.T) {
	for _, c := range []struct {
		name, at, text string
		kept           string // with a + where absent
		free           string
	}{
		{"git's", ".git/hooks/pre-commit", "#!/bin/sh\n./scripts/check.sh\n", "scripts/check.sh", "src/main.js"},
		{"absent", ".git/hooks/pre-commit", "#!/bin/sh\n./scripts/none.sh || exit 1\nbash tools/none\n", "+scripts/none.sh +tools/none", ""},
		{"in a condition", ".git/hooks/commit-msg", "if ! ./scripts/check.sh \"$1\"; then exit 1; fi\n[ -x ./scripts/none ] && ./scripts/none", "scripts/check.sh +scripts/none", ""},
		{"by the top", ".git/hooks/pre-push", "exec \"$(git rev-parse --show-toplevel)/scripts/check.sh\" \"$@\"", "scripts/check.sh", ""},
		{"by its own place", ".git/hooks/pre-push", "\"$(cd \"$(dirname \"$0\")/../..\" && pwd)/scripts/check.sh\"", "scripts/check.sh", ""},
		{"beside itself", ".git/hooks/pre-push", ". \"$(dirname \"$0\")/../../scripts/check.sh\"", "scripts/check.sh", ""},
		{"by a variable", ".git/hooks/post-merge", "ROOT=`git rev-parse --show-toplevel`\n${ROOT}/scripts/check.sh; $ROOT/scripts/lib.py\n", "scripts/check.sh scripts/lib.py", ""},
		{"after cd", ".git/hooks/pre-commit", "cd scripts && ./check.sh", "scripts/check.sh", ""},
		{"an interpreter's", ".git/hooks/pre-commit", "python3 scripts/lib.py && npx tsx scripts/run.ts", "scripts/lib.py scripts/run.ts", ""},
		{"a program among arguments", ".git/hooks/pre-commit", "timeout 9 scripts/check.sh", "scripts/check.sh", ""},
		{"read only", ".git/hooks/pre-commit", "eslint src/main.js --config conf/x.json\n# ./scripts/lib.py is for later\ncat ./README.md src", "", "src/main.js conf/x.json scripts/lib.py README.md src"},
		{"packages", ".git/hooks/pre-commit", "./node_modules/.bin/lint-staged; vendor/bin/phpcs", "", "node_modules vendor"},
		{"a sample", ".git/hooks/pre-commit.sample", "./scripts/check.sh", "", "scripts/check.sh"},
		{"of a directory of hooks", ".git/hooks/pre-commit.d/10", "./scripts/check.sh", "scripts/check.sh", ""},
		{"compiled", ".git/hooks/pre-commit", "\x7fELF\x00 ./scripts/check.sh", "", "scripts/check.sh"},
		{"a linked hook", ".git/hooks/pre-commit -> ../../hooks-of/pre-commit", "", "hooks-of/pre-commit scripts/check.sh", ""},
		{"husky's", ".husky/pre-commit", ". \"$(dirname -- \"$0\")/_/husky.sh\"\nscripts/check.sh\n", "scripts/check.sh", ""},
		{"named by a setting", "own/pre-commit", "./scripts/check.sh", "own scripts/check.sh", ""},
		{"lefthook's", "lefthook.yml", "pre-commit:\n  commands:\n    lint:\n      glob: \"src/*.js\"\n      run: ./scripts/check.sh {staged_files}\n    more:\n      run: |\n        bash scripts/lib.py\n", "scripts/check.sh scripts/lib.py", ""},
		{"pre-commit's", ".pre-commit-config.yaml", "repos:\n- repo: local\n  hooks:\n  - id: x\n    entry: scripts/check.sh\n    files: src/main.js\n", "scripts/check.sh", "src/main.js"},
		{"an agent's", ".claude/settings.json", `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/scripts/check.sh --x"}]}]}, "permissions": {"allow": ["Edit(./src/main.js)"]}, "statusLine": {"command": "scripts/none.sh"}}`, "scripts/check.sh +scripts/none.sh", "src/main.js"},
		{"a server's", ".mcp.json", `{"mcpServers": {"a": {"command": "node", "args": ["scripts/run.ts", "--root", "src"]}}}`, "scripts/run.ts", "src"},
		{"another agent's", ".cursor/hooks.json", `{"hooks": {"stop": [{"command": "./scripts/check.sh"}]}}`, "scripts/check.sh", ""},
		{"an agent's hook", ".github/hooks/a.json", `{"version": 1, "hooks": {"preToolUse": [{"type": "command", "bash": "./scripts/check.sh"}]}}`, ".github/hooks scripts/check.sh", ""},
		{"an agent's in TOML", ".codex/config.toml", "notify = [\"python3\", \"scripts/lib.py\"]\n[mcp_servers.a]\ncommand = \"./scripts/check.sh\"\n", "scripts/check.sh scripts/lib.py", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, root := plant(t, "scripts/check.sh", "scripts/lib.py", "scripts/run.ts", "src/main.js", "conf/x.json", "README.md", "hooks-of/pre-commit=./scripts/check.sh")
			for _, args := range [][]string{{"init", "-q", "--template="}, {"config", "core.hooksPath", "own"}} {
				if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
					t.Skipf("git: %v: %s", err, out)
				}
				if !strings.HasPrefix(c.at, "own") {
					break
				}
			}
			if err := os.Chmod(filepath.Join(dir, "scripts/check.sh"), 0o755); err != nil {
				t.Fatal(err)
			}
			at, link, is := strings.Cut(c.at, " -> ")
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, at)), 0o755); err != nil {
				t.Fatal(err)
			}
			err := os.WriteFile(filepath.Join(dir, at), []byte(c.text), 0o755)
			if is {
				err = os.Remove(filepath.Join(dir, at))
				if err == nil {
					err = os.Symlink(link, filepath.Join(dir, at))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			f, err := Search(root, Options{Source: dir, Protect: true, Absent: true})
			if err != nil {
				t.Fatal(err)
			}
			for want := range strings.FieldsSeq(c.kept) {
				rel, absent := strings.CutPrefix(want, "+")
				how := ReadOnly
				if absent {
					how = Placeholder
				}
				if !slices.ContainsFunc(f.Paths, func(p Path) bool { return p.Rel == rel && p.Treatment == how }) {
					t.Errorf("%s is not %s", rel, how)
				}
			}
			for rel := range strings.FieldsSeq(c.free) {
				if slices.ContainsFunc(f.Paths, func(p Path) bool { return pathname.Within(p.Rel, rel) }) {
					t.Errorf("%s is kept", rel)
				}
			}
			left, err := Search(root, Options{Source: dir, Protect: true, Absent: true, Unprotect: []string{dir + "/scripts", ".git/hooks"}})
			if err != nil {
				t.Fatal(err)
			}
			if left.Keeps("scripts/check.sh") {
				t.Error("kept although policy leaves it to jails")
			}
		})
	}
}

// TestTooLongHook: a text that is not read to its end is refused.
func TestTooLongHook(t *testing.T) {
	dir, root := plant(t, ".git/HEAD", ".git/objects/", ".git/refs/", ".git/hooks/pre-commit="+strings.Repeat("x\n", maxCopy/2+1))
	_, err := Search(root, Options{Source: dir, Protect: true})
	if err == nil || !strings.Contains(err.Error(), "remedy") || !strings.Contains(err.Error(), "pre-commit") {
		t.Errorf("%v", err)
	}
}
