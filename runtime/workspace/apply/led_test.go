package apply

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/workspace/review"
)

// gitWith is a repository with a setting.
func gitWith(setting string) map[string]string {
	return map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/": "", ".git/config": "[core]\n\t" + setting + "\n", "src/x": "x\n",
	}
}

// TestLedTo: an apply judges a path by what protected ones lead to once it is done, by whatever
// link, rename or type on the way. Each step is one apply without options, of some paths or all.
func TestLedTo(t *testing.T) {
	hooks := "hooksPath = tools/hooks"
	for _, c := range []struct {
		name, setting string
		old           map[string]string // in the directory
		view          string            // what the jail does
		steps         []string          // the paths of each apply
		left, applied string            // what the directory does not have then, and what it has
	}{
		{"a link on the way", hooks, nil, "mkdir -p evil/hooks; echo e >evil/hooks/post-commit; ln -s evil tools; echo 2 >src/x", []string{""}, "tools evil/hooks/post-commit", "src/x"},
		{"its target alone", hooks, nil, "mkdir -p evil/hooks; echo e >evil/hooks/post-commit; ln -s evil tools", []string{"evil", ""}, "tools", "evil/hooks/post-commit"},
		{"the link alone", hooks, nil, "mkdir -p evil/hooks; echo e >evil/hooks/post-commit; ln -s evil tools", []string{"tools", "evil"}, "tools", "evil/hooks/post-commit"},
		{"a chain", hooks, nil, "mkdir -p e/f/hooks; echo e >e/f/hooks/post-commit; ln -s a/../b tools; mkdir a; ln -s ./e/f b", []string{""}, "tools b e/f/hooks/post-commit", "a"},
		{"a link there already", hooks, map[string]string{"tools": "->good", "good/x": "x\n"}, "mkdir good/hooks; echo e >good/hooks/post-commit; echo 2 >good/x; echo 2 >src/x", []string{""}, "good/hooks/post-commit", "src/x good/x"},
		{"that link replaced", hooks, map[string]string{"tools": "->good", "good/hooks/post-commit": "g\n"}, "rm tools; mkdir -p tools/hooks; echo e >tools/hooks/pre-commit", []string{""}, "tools/hooks/pre-commit", ""},
		{"that link changed", hooks, map[string]string{"tools": "->good", "good/x": "x\n"}, "mkdir -p evil/hooks; echo e >evil/hooks/post-commit; ln -sfn evil tools; mkdir good/hooks; echo e >good/hooks/post-commit", []string{""}, "evil/hooks/post-commit good/hooks/post-commit", ""},
		{"a directory on the way that is a link by now", hooks, map[string]string{"tools/x": "x\n"}, "rm -r tools; mkdir -p evil/hooks; echo e >evil/hooks/post-commit; ln -s evil tools", []string{""}, "evil/hooks/post-commit", "tools/x"},
		{"a renamed directory", "hooksPath = .husky", map[string]string{"evil/post-commit": "e\n"}, "mv evil .husky", []string{""}, ".husky/post-commit", ""},
		{"one renamed on the way", hooks, map[string]string{"evil/hooks/post-commit": "e\n"}, "mv evil tools", []string{""}, "tools/hooks/post-commit", ""},
		{"a link at the protected path", "x = y", nil, "ln -s evil .husky; mkdir evil; echo e >evil/pre-commit", []string{""}, ".husky evil/pre-commit", ""},
		{"the same in a directory", "x = y", map[string]string{"sub/x": "x\n"}, "ln -s ../evil sub/.vscode; mkdir evil; echo e >evil/tasks.json", []string{""}, "sub/.vscode evil/tasks.json", ""},
		{"a link for a directory of protected ones", "x = y", nil, "ln -s ai .claude; mkdir ai; echo e >ai/settings.json; echo n >ai/notes", []string{""}, ".claude ai/settings.json", "ai/notes"},
		{"in steps", "x = y", nil, "ln -s ai .claude; mkdir ai; echo e >ai/settings.json", []string{"ai", ".claude"}, ".claude", "ai/settings.json"},
		{"an absolute link", hooks, nil, "mkdir -p evil/hooks; echo e >evil/hooks/post-commit; ln -s DIR/evil tools", []string{""}, "tools evil/hooks/post-commit", ""},
		{"one by /proc", hooks, map[string]string{"tools": "->/proc/self/cwd/good"}, "mkdir -p good/hooks; echo e >good/hooks/post-commit", []string{""}, "good/hooks/post-commit", ""},
		{"a file that a file includes", "x = y\n[include]\n\tpath = ../more", nil, "printf '[core]\\n\\thooksPath = h\\n' >more; mkdir h; echo e >h/post-commit", []string{""}, "more h/post-commit", ""},
		{"a file that a link includes", "x = y\n[include]\n\tpath = ../cfg/more", nil, "mkdir c; ln -s c cfg; printf '[core]\\n\\thooksPath = h\\n' >c/more; mkdir h; echo e >h/post-commit", []string{""}, "c/more h/post-commit", "c"},
		{"a program", "fsmonitor = bin/watch", map[string]string{"bin/watch": "->../lib/watch", "lib/watch": "w\n", "lib/x": "x\n"}, "echo e >lib/watch; echo 2 >lib/x", []string{""}, "", "lib/x"},
		{"a file for a directory", hooks, map[string]string{"tools": "a file\n"}, "rm tools; mkdir -p tools/hooks; echo e >tools/hooks/post-commit; echo n >tools/n", []string{""}, "tools/hooks/post-commit tools/n", ""},
		{"other letters", hooks, nil, "mkdir -p evil/hooks; echo e >evil/hooks/post-commit; ln -s evil TOOLS; mkdir Tools; echo 2 >src/x", []string{""}, "TOOLS evil/hooks/post-commit", "src/x"},
		{"a place in other letters", "hooksPath = Tools/Hooks", nil, "mkdir -p tools/hooks; echo e >tools/hooks/post-commit", []string{""}, "tools/hooks", "tools"},
		{"letters that are not shown", hooks, nil, "mkdir -p tools./hoo\u00adks; echo e >tools./hoo\u00adks/post-commit; mkdir .hu\u017fky; echo e >.hu\u017fky/pre-commit; mkdir .pro\ufb01le", []string{""}, "tools./hoo\u00adks .hu\u017fky .pro\ufb01le", ""},
		{"a bare repository in steps", "x = y", map[string]string{"b/refs/x": "x\n"}, "echo 'ref: refs/heads/m' >b/HEAD; mkdir b/objects; printf '[core]\\n\\tfsmonitor = e\\n' >b/config; rm -r b/refs; ln -s /nowhere b/refs", []string{""}, "b/HEAD b/config", "b/refs/x"},
		{"one that a change ends which is left out", "x = y", map[string]string{"b/refs/.vscode/x": "x\n"}, "echo 'ref: refs/heads/m' >b/HEAD; mkdir b/objects; printf '[core]\n\tfsmonitor = e\n' >b/config; rm -r b/refs; echo 2 >src/x", []string{""}, "b/config", "b/refs src/x"},
		{"all of the directory", "x = y", nil, "ln -s . .husky; echo 2 >src/y", []string{"", "src"}, ".husky", "src/y"},
		{"a hook that is a link", "hooksPath = h", map[string]string{"h/pre-commit": "->../s/check.sh", "s/check.sh": "c\n"}, "mkdir t; echo e >t/check.sh; rm -r s; ln -s t s", []string{""}, "t/check.sh", "s/check.sh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := gitWith(c.setting)
			maps.Copy(files, c.old)
			p := newPlace(t, files)
			cmd := exec.Command("sh", "-ec", strings.ReplaceAll(c.view, "DIR", p.dir))
			cmd.Dir = p.merged
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			p.own(t, p.merged)
			p.unmount(t)
			before := list(t, p.dir)
			var res []any
			for _, paths := range c.steps {
				chosen, err := p.review(t).Select(strings.Fields(paths))
				must(t, err)
				for _, c2 := range chosen {
					if slices.Contains(strings.Fields(c.left), c2.Path) && len(c.steps) == 1 && !c2.Has(review.Protected) {
						t.Errorf("no mark: %s %v", c2, c2.Marks)
					}
				}
				r, err := p.apply(t, Options{Links: true}, strings.Fields(paths)...)
				must(t, err)
				res = append(res, *r)
			}
			had := strings.Split(before, "\n")
			for at := range strings.FieldsSeq(c.left) {
				if _, err := os.Lstat(p.dir + "/" + at); err == nil && !slices.ContainsFunc(had, func(l string) bool { return strings.HasPrefix(l, at+" ") }) {
					t.Errorf("%s was applied: %+v", at, res)
				}
			}
			for at := range strings.FieldsSeq(c.applied) {
				if _, err := os.Lstat(p.dir + "/" + at); err != nil {
					t.Errorf("%s was not applied: %+v", at, res)
				}
			}
			if strings.Contains(c.name, "program") {
				if text, _ := os.ReadFile(p.dir + "/lib/watch"); string(text) != "w\n" {
					t.Errorf("lib/watch: %q", text)
				}
			}
		})
	}
}

// TestLedToWithoutConflicts: with Each, changes in conflict count as not done for what the others
// lead to.
func TestLedToWithoutConflicts(t *testing.T) {
	files := gitWith("x = y")
	files["b/refs/x"] = "x\n"
	p := newPlace(t, files)
	p.write(t, p.merged, map[string]string{"b/HEAD": "ref: refs/heads/main\n", "b/objects/": "", "b/config": "[core]\n\tfsmonitor = e\n", "src/x": "2\n"})
	must(t, os.RemoveAll(p.merged+"/b/refs"))
	p.unmount(t)
	p.write(t, p.dir, map[string]string{"b/refs/x": "the owner's\n"})
	res, err := p.apply(t, Options{Each: true})
	must(t, err)
	if _, err := os.Lstat(p.dir + "/b/config"); err == nil || !slices.Contains(res.Applied, "src/x") {
		t.Errorf("b is a repository, with the jail's settings: %+v", res)
	}
}

// TestModeOfLinkedFile: a file whose mode changes is protected where another name of it is.
func TestModeOfLinkedFile(t *testing.T) {
	files := gitWith("x = y")
	files[".git/hooks/pre-commit"], files["plain"] = "#!/bin/sh\n", "p\n"
	p := newPlace(t, files)
	must(t, os.Link(p.dir+"/.git/hooks/pre-commit", p.dir+"/src/check"))
	must(t, os.Link(p.dir+"/plain", p.dir+"/src/plain"))
	p.settled(t)
	for _, name := range []string{"check", "plain", "x"} {
		must(t, os.Chmod(p.merged+"/src/"+name, 0o755))
	}
	p.unmount(t)
	res, err := p.apply(t, Options{})
	must(t, err)
	if !slices.Equal(res.Applied, []string{"src/plain", "src/x"}) {
		t.Errorf("%+v", res)
	}
}
