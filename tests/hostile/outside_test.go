package hostile

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// An outside is a way in which git takes settings from outside of a mounted directory. Its scripts have $SET, which sets one, and $H, the
// person's home, and begin in a directory of the person's.
type outside struct {
	name, set, host string
	mount           string // below that directory
	part            string // from the top of the work tree to the mount
	in              string // where the person's git runs; "" for the mount
}

var outsides = []outside{
	{"the user's own settings", "git config --global", "repo w", "w", "", ""},
	{"the user's XDG settings", "git config --file $H/.config/git/config", "mkdir -p $H/.config/git; repo w", "w", "", ""},
	{"settings that the user's include", "git config --file $H/team", "git config --global includeIf.onbranch:none.path team; git config --global include.path team; repo w", "w", "", ""},
	{"the repository around", "git -C r config", "repo r; mkdir r/pkg; echo 1 >r/pkg/f; git -C r add pkg; git -C r commit -qm pkg", "r/pkg", "pkg/", ""},
	{"the user's own settings, in the repository around", "git config --global", "repo r; mkdir r/pkg; echo 1 >r/pkg/f; git -C r add pkg; git -C r commit -qm pkg", "r/pkg", "pkg/", ""},
	{"a linked work tree", "git -C m config", "repo m; git -C m worktree add -q ../w", "w", "", ""},
	{"a part of a linked work tree", "git -C m config", "repo m; mkdir m/pkg; echo 1 >m/pkg/f; git -C m add pkg; git -C m commit -qm pkg; git -C m worktree add -q ../w", "w/pkg", "pkg/", ""},
	{"a separate git directory", "git -C w config", "repo w; git init -q --separate-git-dir $PWD/g w", "w", "", ""},
	{"a submodule", "git -C s/l config", "repo l; repo s; git -C s -c protocol.file.allow=always submodule --quiet add $PWD/l l; git -C s commit -qm l", "s/l", "", ""},
	{"the repository around a submodule", "git -C s config", "repo l; repo s; git -C s -c protocol.file.allow=always submodule --quiet add $PWD/l l; git -C s commit -qm l", "s/l", "l/", "s"},
}

// A setting has git run a program of the mounted directory. "PART" stands for the mount's part, and MOUNT for its path.
type setting struct{ key, value, jail, run string }

var settings = []setting{
	{"core.hooksPath", "PARThk", "evil hk/post-commit", "git commit -q --allow-empty -m x"},
	{"core.hooksPath", "MOUNT/hk", "evil hk/post-commit", "git commit -q --allow-empty -m x"},
	{"core.fsmonitor", "./PARThk", "evil hk", "git status"},
	{"alias.x", "!./PARThk", "evil hk", "git x"},
	{"diff.external", "./PARThk", "evil hk", "echo 2 >>f; git diff"},
	{"filter.e.clean", "./PARThk", "evil hk cat", "echo '* filter=e' >.gitattributes; echo 2 >>f; git add f"},
	{"core.sshCommand", "./PARThk", "evil hk", "git ls-remote ssh://x/y"},
	{"include.path", "MOUNT/more", "evil hk; printf '[core]\n\tfsmonitor = %s/hk\n' $PWD >more", "git status"},
}

// rowOf is the directory of a setting in a place.
func (o outside) rowOf(p place, i int) string { return filepath.Join(p.dir, "rows", fmt.Sprint(i)) }

// withHome runs agentjail where passwd(5) has uid 1000 with a home.
func withHome(t *testing.T, home string, args ...string) engine.Result {
	t.Helper()
	text, err := os.ReadFile("/etc/passwd")
	env.Check(t, err)
	lines := []string{fmt.Sprintf("person:x:1000:1000::%s:/bin/sh", home)}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, ":"); len(f) > 2 && f[2] != "1000" {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	passwd := filepath.Join(t.TempDir(), "passwd")
	env.Check(t, os.WriteFile(passwd, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	cmd := exec.Command("unshare", append([]string{"-m", "sh", "-ec", `mount --bind "$1" /etc/passwd; shift; exec "$@"`, "sh", passwd, bin}, args...)...)
	return engine.RunPrepared(t, cmd)
}

// TestSettingsOutside: what settings outside of a mounted directory name in it runs on the host without the protection, and not with it.
func TestSettingsOutside(t *testing.T) {
	if !has("git") {
		t.Skip("no git on this machine")
	}
	for _, o := range outsides {
		for _, how := range []string{"without", "with", "view"} {
			t.Run(strings.ReplaceAll(o.name, " ", "-")+"/"+how, func(t *testing.T) {
				if how == "view" {
					engine.NeedsViews(t)
				}
				p := newPlace(t, how == "without")
				personsDir(t, filepath.Join(p.dir, "rows"))
				var mounts []string
				script := words
				for i, s := range settings {
					if how == "view" && i%3 == 1 { // a view is a jail of its own
						mounts = append(mounts, "")
						continue
					}
					dir, home := o.rowOf(p, i), p.home(i)
					personsDir(t, dir)
					personsDir(t, home)
					mount := filepath.Join(dir, o.mount)
					fill := strings.NewReplacer("PART", o.part, "MOUNT", mount)
					// The home of all is one, in which each row's settings have another key or value: each has its own jail then.
					if out, err := asPerson(dir, home, "set -e; H="+home+"; "+o.host+"; "+o.set+" "+s.key+" '"+fill.Replace(s.value)+"'"); err != nil {
						t.Fatal(out)
					}
					mounts = append(mounts, mount)
					one := fmt.Sprintf("( cd %s; M=%s; %s\n) >/dev/null 2>&1 </dev/null\n", mount, p.mark(i), s.jail)
					script += one
					if how == "view" || strings.Contains(o.set, "--global") || strings.Contains(o.set, "$H") {
						o.jail(t, p, how, home, words+one, mount)
					}
				}
				if how != "view" && !strings.Contains(o.set, "--global") && !strings.Contains(o.set, "$H") {
					o.jail(t, p, how, p.home(0), script, mounts...)
				}
				for i, s := range settings {
					if mounts[i] == "" {
						continue
					}
					said, _ := asPerson(filepath.Join(o.rowOf(p, i), cmp.Or(o.in, o.mount)), p.home(i), strings.NewReplacer("PART", o.part).Replace(s.run), "M="+p.mark(i))
					if _, err := os.Lstat(p.mark(i)); (err == nil) != p.open {
						t.Errorf("%s = %s: the program ran on the host: %v, want %v\n%s", s.key, s.value, err == nil, p.open, said)
					}
				}
			})
		}
	}
}

// jail runs a script in a jail with some directories.
func (o outside) jail(t *testing.T, p place, how, home, script string, mounts ...string) {
	t.Helper()
	text := "workspace.size = \"64MiB\"\nworkspace.files = 16000\n"
	if how == "without" {
		text = "[binds]\nprotect = false\n"
	}
	args := []string{"--config", engine.PolicyFile(t, text), "sandbox", "--workspace", mounts[0]}
	for _, m := range mounts[1:] {
		args = append(args, "-v", m+":"+m)
	}
	name := ""
	if how == "view" {
		name = strings.ReplaceAll(strings.Trim(mounts[0], "/"), "/", "-")
		args = append(args, "--review", "--view", name)
		t.Cleanup(func() { engine.Run(t, bin, "workspace", "discard", name) })
	}
	if r := withHome(t, home, append(args, "--", "sh", "-c", script+"echo done\n")...); r.Code != 0 || !strings.HasSuffix(r.Stdout, "done\n") {
		t.Fatal(r)
	}
	if how != "view" {
		return
	}
	if r := withHome(t, home, "workspace", "apply", name); r.Code != 1 || !strings.Contains(r.Stdout+r.Stderr, "hk") && !strings.Contains(r.Stdout+r.Stderr, "more") {
		t.Errorf("the apply leaves nothing out: %v", r)
	}
}

// TestHomesElsewhere: a home that passwd(5) has elsewhere, or behind a link, is refused as one in /home, and no remedy opens it.
func TestHomesElsewhere(t *testing.T) {
	dir := engine.TempDir(t, "/srv", "agentjail-hostile-")
	env.Check(t, os.MkdirAll(dir+"/real/.ssh", 0o755))
	env.Check(t, os.MkdirAll(dir+"/real/project", 0o755))
	env.Check(t, os.WriteFile(dir+"/real/.ssh/id", []byte("KEY\n"), 0o644))
	env.Check(t, os.Symlink("real", dir+"/link"))
	if out, err := exec.Command("chown", "-R", "1000:1000", dir+"/real").CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	for _, home := range []string{dir + "/real", dir + "/link"} {
		for _, source := range []string{dir + "/real", dir + "/link", dir + "/real/.ssh", dir + "/link/.ssh", dir} {
			for _, mode := range []string{"", ":ro"} {
				r := withHome(t, home, "sandbox", "-v", source+":/x"+mode, "--", "sh", "-c", "cat /x/.ssh/id /x/id /x/real/.ssh/id; mkdir -p /x/.config/systemd/user")
				if r.Code == 0 || strings.Contains(r.Stdout, "KEY") || !strings.Contains(r.Stderr, "remedy") || strings.Contains(r.Stderr, "name the real path") {
					t.Errorf("the home %s, %s%s: %v", home, source, mode, r)
				}
			}
		}
		if r := withHome(t, home, "sandbox", "-w", dir+"/real/project", "--", "touch", "made"); r.Code != 0 {
			t.Errorf("a project in it: %v", r)
		}
	}
}
