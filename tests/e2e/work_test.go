package e2e

import (
	_ "embed"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

//go:embed testdata/work.sh
var workScript string

// TestRealWork runs an agent's minute of work under runc and in jails: the output is the same, and the workspace's files
// belong to the workspace's owner.
func TestRealWork(t *testing.T) {
	d := docker.For(t)
	env.Check(t, d.ImportWork())
	want, wantFiles := work(t, d, "--runtime=runc", "-u", "1000:1000", "--network", "none")
	if !strings.HasSuffix(want, "== done\n") {
		t.Fatalf("under runc the script does not reach its end:\n%s", want)
	}
	for name, options := range map[string][]string{
		"as uid 1000":       {jail, "-u", "1000:1000"},
		"as container root": {jail},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, files := work(t, docker.For(t), options...)
			for i, line := range strings.Split(got, "\n") {
				if w := strings.Split(want, "\n"); i >= len(w) || line != w[i] {
					t.Errorf("line %d differs from runc's:\n%s\nall of it:\n%s", i+1, line, got)
					break
				}
			}
			if got != want && !t.Failed() {
				t.Errorf("it ends early:\n%s", got)
			}
			for p, f := range wantFiles {
				if files[p] != f {
					t.Errorf("%s is %q, under runc %q", p, files[p], f)
				}
			}
			for p, f := range files {
				if wantFiles[p] == "" {
					t.Errorf("%s (%s) is not there under runc", p, f)
				}
			}
		})
	}
}

// work runs the script in a workspace of uid 1000 and returns its output and what it left: owner and mode by path.
func work(t testing.TB, d *engine.T, options ...string) (string, map[string]string) {
	t.Helper()
	dir := directory(t, 1000)
	env.Put(t, filepath.Join(dir, "README"), "the workspace\n", 0o644, 1000)
	args := append([]string{"run", "--rm", "-i", "-v", dir + ":/workspace", "-w", "/workspace"}, options...)
	r := d.DockerIn(strings.NewReader(workScript), append(args, engine.Work, "bash", "-s")...)
	if r.Code != 0 {
		t.Errorf("%s", r)
	}
	t.Logf("%s: %v", strings.Join(options, " "), r.Took)
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(p, dir)
		if strings.Contains(rel, "/objects/") || strings.Contains(rel, "/.git/") { // packs may be cut differently
			rel = ""
		}
		own, mode := owner(t, p)
		if own != "1000:1000" {
			t.Errorf("%s belongs to %s", p, own)
		}
		if rel != "" {
			files[rel] = mode.String()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return r.Stdout, files
}

// TestRemoveEverythingForReal is TestRemoveEverything with coreutils, which prompts twice.
func TestRemoveEverythingForReal(t *testing.T) {
	d := docker.For(t)
	env.Check(t, d.ImportWork())
	n := newNeighbour(d)
	ro := directory(t, 1000)
	r := d.Docker("run", "--rm", jail, "-v", ro+":/ro:ro", engine.Work, "rm", "-rf", "--no-preserve-root", "/")
	t.Logf("rm: exit code %d, %d complaints", r.Code, strings.Count(r.Stderr, "\n"))
	if _, err := os.Stat(filepath.Join(ro, "hello")); err != nil {
		t.Error(err)
	}
	env.Equal(t, "the image", d.Must("run", "--rm", jail, engine.Work, "bash", "-c", "ls /usr/bin/git"), "/usr/bin/git")
	n.unharmed()
}
