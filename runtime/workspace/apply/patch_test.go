package apply

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/workspace/review"
)

// TestPatch: git applies the patch, which makes of a directory what an apply makes of it. What no
// patch has is named.
func TestPatch(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	files := map[string]string{"no end": "a\nb", "end": "a\nb\n", "many": strings.Repeat("line\n", 3000), "data/bin": "x", "tab\tand \"quote\"": "1\n", "ümlaut": "1\n"}
	maps.Copy(files, project)
	p := newPlace(t, files)
	work1(t, p)
	p.write(t, p.merged, map[string]string{
		"no end": "a\nb\nc", "end": "a\nb", "many": strings.Repeat("line\n", 1500) + "other\n" + strings.Repeat("line\n", 1499), "empty": "",
		"data/bin": "a\x00b", "data/large": strings.Repeat("0123456789abcdef\n", 1<<16), "tab\tand \"quote\"": "2\n", "ümlaut": "2\n", "new line\n": "x\n",
		"a space": "x\n", "-dash": "-- x\n",
	})
	must(t, os.Chmod(p.merged+"/end", 0o600))
	copied := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", p.dir, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := p.review(t)
	var patch bytes.Buffer
	var left []string
	d := &review.Differ{Upper: p.view.Upper, Directory: p.view.Directory, Out: &patch, Patch: true, Left: func(at, _ string) { left = append(left, at) }}
	for _, c := range r.Changes {
		must(t, d.Write(t.Context(), c))
	}
	slices.Sort(left)
	if want := []string{"data/bin", "data/large"}; !slices.Equal(left, want) {
		t.Errorf("left out %q, not %q", left, want)
	}
	for _, args := range [][]string{{"init", "-q"}, {"apply", "--whitespace=nowarn"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = copied, bytes.NewReader(patch.Bytes())
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s\n%s", args, err, out, patch.String())
		}
	}
	must(t, os.RemoveAll(copied+"/.git"))
	p.unmount(t)
	if _, err := p.apply(t, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"data", "new/empty"} { // binary files and empty directories are in no patch
		must(t, os.RemoveAll(filepath.Join(p.dir, at)))
		must(t, os.RemoveAll(filepath.Join(copied, at)))
	}
	if got, want := contents(t, copied), contents(t, p.dir); got != want {
		t.Errorf("git's is\n%s\nnot\n%s", got, want)
	}
}

// contents is a tree's files without owners and without modes but the bit that git has.
func contents(t *testing.T, top string) string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(top, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if target, err := os.Readlink(at); err == nil {
			out = append(out, at[len(top):]+" -> "+target)
			return nil
		}
		data, err := os.ReadFile(at)
		info, _ := e.Info()
		out = append(out, fmt.Sprintf("%s %v %d %.40q", at[len(top):], info.Mode()&0o100 != 0, len(data), data))
		return err
	}))
	return strings.Join(out, "\n")
}

// TestTerminal: a difference for a terminal has no control characters, in names and in lines.
func TestTerminal(t *testing.T) {
	p := newPlace(t, map[string]string{"a": "a\n"})
	p.write(t, p.merged, map[string]string{"a": "\x1b[31mred\x1b]0;title\a\u202e\n", "b\x1b[2J\n": "1\n", "li": "->\x1b[2J"})
	r := p.review(t)
	var out bytes.Buffer
	d := &review.Differ{Upper: p.view.Upper, Directory: p.view.Directory, Out: &out, Left: func(string, string) {}}
	for _, c := range r.Changes {
		must(t, d.Write(t.Context(), c))
	}
	must(t, review.Print(&out, r.Changes, 0))
	if s := out.String(); strings.ContainsAny(s, "\x1b\a\u202e") || !strings.Contains(s, `\x1b[31mred`) || !strings.Contains(s, `b\x1b[2J\x0a`) {
		t.Errorf("%q", s)
	}
}
