package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestOthersFiles: the files of other owners in a workspace, by owner, group and mode: what the jail can do with them, and that what it could not
// write is as it was.
func TestOthersFiles(t *testing.T) {
	for name, view := range map[string]bool{"direct": false, "view": true} {
		t.Run(name, func(t *testing.T) {
			dir, policy := engine.Workspace(t, nil), small(t)
			engine.Others(t, dir)
			args := []string{"--config", policy, "--workspace", dir}
			if view {
				args = append(args, "--review", "--view", "v"+filepath.Base(dir))
			}
			code, out, errs := sandbox(t, append(args, "--", "sh", "-c", engine.OthersScript)...)
			if code != 0 {
				t.Fatalf("status %d: %s", code, errs)
			}
			engine.CheckOthers(t, out, name)
			if view {
				if code, out := agentjail(t, "workspace", "apply", args[len(args)-1]); code != 0 {
					t.Fatalf("apply: %s", out)
				}
			}
			left, err := filepath.Glob(dir + "/*_*")
			env.Check(t, err)
			for _, path := range left {
				name := filepath.Base(path)
				if strings.Contains(out, name+" remove") {
					t.Errorf("%s is still there", name)
				}
				if fi, err := os.Stat(path); err != nil || fi.IsDir() {
					continue
				}
				text, err := os.ReadFile(path)
				env.Check(t, err)
				if mine := strings.Contains(out, name+" replace"); string(text) != map[bool]string{true: "mine\n", false: "theirs\n"}[mine] {
					t.Errorf("%s: %q", name, text)
				}
			}
		})
	}
}

// TestOthersLeftovers: what `sudo make` left is no hindrance to programs, as on the host.
func TestOthersLeftovers(t *testing.T) {
	dir := engine.Workspace(t, map[string]string{"tracked": "a\n", "sub/c": "c\n", "kept": "k\n"})
	git := func(args ...string) {
		r := engine.Run(t, "git", append([]string{"-C", dir, "-c", "safe.directory=*", "-c", "user.name=n", "-c", "user.email=m"}, args...)...)
		if r.Code != 0 {
			t.Fatal(r)
		}
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "first")
	env.Check(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, 1000, 1000)
	}))
	for path, uid := range map[string]int{"tracked": 0, "sub/c": 0, "out.o": 0, "sub/made": 1001} {
		env.Check(t, errors.Join(os.WriteFile(filepath.Join(dir, path), []byte("made\n"), 0o644), os.Chown(filepath.Join(dir, path), uid, uid)))
	}
	env.Check(t, os.Mkdir(dir+"/made", 0o755))
	for _, more := range [][]string{nil, {"--review"}} {
		code, out, errs := sandbox(t, append(append([]string{"--workspace", dir}, more...), "--", "sh", "-ec", `
			export HOME=/tmp GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=m GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=m
			git stash -u -q; test ! -e out.o; test ! -e sub/made
			git stash pop -q; test -e out.o
			`+map[bool]string{true: "echo other >.new; mv -f .new out.o; sed -i s/other/more/ out.o; touch made2; mv out.o sub/", false: "true"}[more == nil]+`
			git checkout -q -f -- tracked sub/c
			git clean -fdq; rm -rf sub; echo done; ls`)...)
		if code != 0 || !strings.HasPrefix(out, "done\n") || strings.Contains(out, "made") || strings.Contains(out, "sub") {
			t.Fatalf("%v: status %d: %s%s", more, code, out, errs)
		}
		for path, uid := range map[string]int{"tracked": 0, "out.o": 0} {
			env.Check(t, errors.Join(os.WriteFile(filepath.Join(dir, path), []byte("made\n"), 0o644), os.Chown(filepath.Join(dir, path), uid, uid)))
		}
		env.Check(t, errors.Join(os.MkdirAll(dir+"/sub", 0o755), os.Chown(dir+"/sub", 1000, 1000)))
		for _, name := range []string{"c", "made"} {
			env.Check(t, os.WriteFile(dir+"/sub/"+name, []byte("made\n"), 0o644))
		}
	}
}
