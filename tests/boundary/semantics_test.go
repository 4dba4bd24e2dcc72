package boundary

import (
	"bufio"
	_ "embed"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

//go:embed testdata/semantics.py
var semantics string

// manyEnv is the number of files before and in the jail, each; manyFiles is that of an ordinary run.
const manyEnv, manyFiles = "AGENTJAIL_SEMANTICS_FILES", "2000"

// ways are the ways to mount a directory that are compared with a direct mount.
var ways = []struct {
	name string
	args []string // of the sandbox
	// result has what differs for the jail, by operation, and applied what differs in the directory after an apply, by path.
	result, applied map[string]string
}{
	{"view", []string{"--review"}, map[string]string{
		hardOld: "the first write copies one name's file to the layer (overlayfs.rst, index=off)",
	}, notApplied},
	{"view under gVisor", []string{"--policy", "gvisor", "--review"}, map[string]string{
		hardOld:                          "as in a view, and its kernel counts names by itself",
		"sparse files stay sparse":       "its kernel has no count of blocks",
		"a file without a name gets one": "its kernel makes none on a file system of the host's",
	}, with(notApplied, "'named'", "it was not made")},
}

const hardOld = "a hard link of before, written by one name"

// notApplied is what an apply does differently.
var notApplied = map[string]string{
	"'fifo'": "pipes are never applied", "'sock'": "sockets are never applied",
	"'hard1'": parts, "'hard2'": parts, "'hard3'": parts, "'hnew'": parts, "'hnew2'": parts,
}

const parts = "an applied file has one name"

func with(all map[string]string, name, why string) map[string]string {
	all = maps.Clone(all)
	all[name] = why
	return all
}

// TestViewBehavesAsDirectMount: a program does the same with the files of a directory in a view as in a direct mount, and an apply leaves the directory as
// a direct mount would; what differs is known, with the reason.
func TestViewBehavesAsDirectMount(t *testing.T) {
	engine.NeedsViews(t)
	const python = "/usr/bin/python3" // jails have /usr
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	many := os.Getenv(manyEnv)
	if many == "" {
		many = manyFiles
	}
	s := semantic{t, python, many}
	direct := s.dir()
	want := s.work(direct, exec.Command(bin, s.sandbox(direct)...))
	wantTree := s.list(direct)
	if len(want) < 30 || len(wantTree) < 50 {
		t.Fatalf("%d operations, %d files", len(want), len(wantTree))
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := semantic{t, python, many}
			dir := s.dir()
			view := filepath.Base(dir)
			t.Cleanup(func() { engine.Run(t, bin, "workspace", "discard", view) })
			differs(t, "in the jail", want, s.work(dir, exec.Command(bin, s.sandbox(dir, append(way.args, "--view", view)...)...)), way.result)
			if r := engine.Run(t, bin, "workspace", "apply", "--links", view); r.Code > 1 || strings.Contains(r.Stdout+r.Stderr, "conflict") {
				t.Fatal(r)
			}
			differs(t, "applied", wantTree, s.list(dir), way.applied)
		})
	}
}

// differs compares two maps, but for what is known to differ, which has to.
func differs(t *testing.T, what string, want, got map[string]string, known map[string]string) {
	t.Helper()
	names := slices.Sorted(maps.Keys(want))
	for name := range got {
		if _, had := want[name]; !had {
			names = append(names, name)
		}
	}
	for _, name := range names {
		switch same := want[name] == got[name]; {
		case !same && known[name] == "":
			t.Errorf("%s: %s: direct %q, here %q", what, name, want[name], got[name])
		case same && known[name] != "":
			t.Errorf("%s: %s does not differ: %q", what, name, got[name])
		case !same:
			t.Logf("%s: %s: direct %q, here %q: %s", what, name, want[name], got[name], known[name])
		}
	}
}

// A semantic runs the script.
type semantic struct {
	*testing.T
	python, many string
}

// dir is a directory of uid 1000 with the script's files.
func (s semantic) dir() string {
	s.Helper()
	dir := engine.TempDir(s, "/var/tmp", "agentjail-semantics-") // a disk: trees of 100,000 files
	env.Check(s, os.Chown(dir, 1000, 1000))
	cmd := exec.Command(s.python, "-c", semantics, "make", dir, s.many)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	return dir
}

// sandbox are the arguments of agentjail for a sandbox that does the script's work.
func (s semantic) sandbox(dir string, more ...string) []string {
	args := append([]string{"sandbox", "--workspace", dir}, more...)
	if s.many == manyFiles && len(more) > 0 {
		args = append(args, "--tighten", "workspace.size=64MiB")
	}
	return append(args, "--", s.python, "-c", semantics, "work", s.many)
}

// work has the script work, and edits a directory of the host's meanwhile.
func (s semantic) work(dir string, cmd *exec.Cmd) map[string]string {
	s.Helper()
	in, err := cmd.StdinPipe()
	out, oerr := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	env.Check(s, errors.Join(err, oerr))
	env.Check(s, cmd.Start())
	results := map[string]string{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "READY" {
			if err := errors.Join(edit(filepath.Join(dir, "host")), in.Close()); err != nil {
				s.Error(err)
			}
			continue
		}
		name, result, _ := strings.Cut(lines.Text(), "\t")
		results[name] = result
	}
	if err := cmd.Wait(); err != nil {
		s.Fatalf("%v: %v", cmd.Args[:6], err)
	}
	return results
}

// edit is what the host does in a directory that the jail does not write to.
func edit(dir string) error {
	err := errors.Join(os.WriteFile(dir+"/edited", []byte("edited\n"), 0o644), os.WriteFile(dir+"/new", []byte("new\n"), 0o644), os.Remove(dir+"/gone"))
	for _, name := range []string{"/edited", "/new"} {
		err = errors.Join(err, os.Chown(dir+name, 1000, 1000))
	}
	return err
}

// list is all below a directory, by path.
func (s semantic) list(dir string) map[string]string {
	s.Helper()
	out, err := exec.Command(s.python, "-c", semantics, "list", dir).Output()
	env.Check(s, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		files[name] = what
	}
	return files
}
