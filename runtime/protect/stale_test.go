package protect

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStale: an index that is ahead of a protected file is found in each version of the format, and a commit after a switch is noted.
func TestStale(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git on this machine")
	}
	for _, version := range []int{2, 3, 4} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			dir, root := plant(t, ".claude/settings.json", "a/lefthook.yml", "a/b/main.go", "main.go", ".vscode/tasks.json")
			run := func(script string) {
				t.Helper()
				cmd := exec.Command("sh", "-ec", script)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
					"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", script, err, out)
				}
			}
			run(fmt.Sprintf("git init -q -b main; git config index.version %d; git add .; git commit -qm one; git switch -q -c up", version))
			run("echo new >.claude/settings.json; echo new >main.go; git commit -qam up; git switch -q main")
			if version == 3 { // only where an entry needs it (gitformat-index(5))
				run("echo x >later; git add -N later")
			}
			w := WorkTree{".git", "."}
			long := time.Unix(1, 0)
			check := func(what, files string, committed bool) {
				t.Helper()
				got, err := w.Stale(root, long)
				if err != nil || strings.Join(got.Files, " ") != files || got.Committed != committed {
					t.Errorf("%s: %v, %v; want %q, %v", what, got, err, files, committed)
				}
			}
			os.RemoveAll(filepath.Join(dir, ".git/logs"))
			run("mkdir .git/logs")
			check("before", "", false)
			run("touch .claude/settings.json") // another time, the same text
			check("touched", "", false)
			old, err := os.ReadFile(filepath.Join(dir, ".claude/settings.json"))
			if err != nil {
				t.Fatal(err)
			}
			run("git switch -q up")
			if err := os.WriteFile(filepath.Join(dir, ".claude/settings.json"), old, 0o644); err != nil { // as git leaves it in a jail
				t.Fatal(err)
			}
			check("switched", ".claude/settings.json", false)
			run("git commit -qam work")
			check("committed", "", true)
			if got, err := w.Stale(root, time.Now().Add(time.Hour)); err != nil || got.Committed || len(got.Files) > 0 {
				t.Errorf("nothing was done since: %v, %v", got, err)
			}
		})
	}
}
