// Package hostile tries what a repository, or a jail that works in it, can have the host run afterwards: each row of a table is first
// seen to run on the host without the protection, and then not to with it.
package hostile

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var bin string

func TestMain(m *testing.M) { os.Exit(engine.MainBare(m, "it runs jails", &bin)) }

// perJail is how many rows share a jail: each is a repository, of which the search for protected paths takes some.
const perJail = 25

// npmDir is where hack/npm-tools.sh installs what npm has.
const npmDir = "/var/cache/agentjail-npm/node_modules/.bin"

// path is the PATH of the person.
var path = npmDir + ":/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

func has(program string) bool {
	return slices.ContainsFunc(filepath.SplitList(path), func(dir string) bool {
		fi, err := os.Stat(filepath.Join(dir, program))
		return err == nil && fi.Mode()&0o111 != 0
	})
}

// words are what the scripts of rows call.
const words = `
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
evil() { mkdir -p "$(dirname "$1")"; printf '#!/bin/sh\ntouch "%s"\n%s\n' "$M" "$2" >"$1"; chmod +x "$1"; }
nested() { git init -q -b main $1; echo 1 >$1/f; git -C $1 add f; git -C $1 commit -qm one; }
repo() { nested $1; }
sub() { nested ../lib; git -c protocol.file.allow=always submodule --quiet add ../lib lib; git commit -qm lib; }
until_own() {
	setsid "$@" & p=$!; n=0
	while kill -0 $p 2>/dev/null && [ $n -lt 300 ]; do
		[ -e "$M.own" ] && { [ -z "$EXPECT" ] || [ -e "$M" ]; } && break
		n=$((n+1)); sleep 0.1
	done
	kill -9 -$p 2>/dev/null; wait $p 2>/dev/null
	[ -e "$M.own" ] || echo "the person's own settings were not read"
}
`

// A place is where the rows are tried, with the protection or without.
type place struct {
	dir  string // of root's
	open bool   // without the protection
}

func (p place) row(i int) string {
	return filepath.Join(p.dir, fmt.Sprint("ws", i/perJail), fmt.Sprint(i))
}
func (p place) mark(i int) string { return filepath.Join(p.dir, "marks", fmt.Sprint(i)) }
func (p place) home(i int) string { return filepath.Join(p.dir, "homes", fmt.Sprint(i)) }

// newPlace is a directory with directories of uid 1000.
func newPlace(t *testing.T, open bool) place {
	t.Helper()
	p := place{engine.TempDir(t, "/tmp", "agentjail-hostile-"), open}
	for _, sub := range []string{"marks", "homes"} {
		personsDir(t, filepath.Join(p.dir, sub))
	}
	return p
}

func personsDir(t *testing.T, dir string) {
	t.Helper()
	env.Check(t, os.MkdirAll(dir, 0o755))
	env.Check(t, os.Chown(dir, 1000, 1000))
}

// asPerson runs a script as uid 1000, in a session of its own so that nothing has a terminal.
func asPerson(dir, home, script string, env ...string) (string, error) {
	cmd := exec.Command("timeout", "90", "setsid", "-w", "setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "sh", "-c", words+script)
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second // what is left behind has our pipes
	cmd.Env = append([]string{
		"PATH=" + path, "HOME=" + home, "TMPDIR=" + home, "ANTHROPIC_API_KEY=sk-ant-x", "ANTHROPIC_BASE_URL=http://127.0.0.1:1", "DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "OPENAI_API_KEY=x", "LC_ALL=C.UTF-8",
	}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// prepare makes the directories of all rows.
func (p place) prepare(t *testing.T, all []row) {
	t.Helper()
	for i := range all {
		personsDir(t, filepath.Dir(p.row(i)))
		personsDir(t, p.row(i))
		personsDir(t, p.home(i))
	}
	var script strings.Builder
	for i, r := range all {
		fmt.Fprintf(&script, "( set -e; cd %s; export M=%s HOME=%s\n", p.row(i), p.mark(i), p.home(i))
		if strings.HasPrefix(r.jail, "cd r;") {
			script.WriteString("repo r\n")
		}
		fmt.Fprintf(&script, "%s\n) || echo \"row %d was not made: \"%q\n", r.host, i, r.key)
	}
	if out, err := asPerson(p.dir, p.dir, script.String()); err != nil || strings.Contains(out, "was not made") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// plant runs the jails.
func (p place) plant(t *testing.T, all []row) {
	t.Helper()
	text := ""
	if p.open {
		text = "[binds]\nprotect = false\n"
	}
	policy := engine.PolicyFile(t, text)
	for from := 0; from < len(all); from += perJail {
		p.plantIn(t, all, from, policy)
	}
}

// plantIn runs the jail of the rows that share one, from a first on.
func (p place) plantIn(t *testing.T, all []row, from int, policy string, options ...string) {
	t.Helper()
	script := strings.Builder{}
	script.WriteString(words)
	for i := from; i < min(from+perJail, len(all)); i++ {
		fmt.Fprintf(&script, "( cd %s; M=%s; %s\n) >/dev/null 2>&1 </dev/null\n", p.row(i), p.mark(i), all[i].jail)
	}
	script.WriteString("echo done\n")
	args := append([]string{"--config", policy, "sandbox", "--workspace", filepath.Dir(p.row(from))}, options...)
	r := engine.Run(t, bin, append(args, "--", "sh", "-c", script.String())...)
	if r.Code != 0 || !strings.HasSuffix(r.Stdout, "done\n") {
		t.Fatalf("the jail: %v", r)
	}
}

// state is what a program that reads a path would find there.
func state(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "nothing"
	}
	return "text " + string(text)
}

// TestRowsAreDistinct: no two rows are the same, and there are enough.
func TestRowsAreDistinct(t *testing.T) {
	keys, mechanisms := map[string]bool{}, map[string]bool{}
	all := rows()
	for _, r := range all {
		if keys[r.key] || r.key == "" || r.mechanism == "" || r.jail == "" || r.run == "" && r.file == "" || r.need != "" && r.file == "" {
			t.Errorf("%+v", r)
		}
		keys[r.key], mechanisms[r.mechanism] = true, true
	}
	for _, u := range userPlaces {
		if keys["~/"+u.dir] {
			t.Errorf("~/%s is in both tables", u.dir)
		}
	}
	if len(all) < 60 || len(mechanisms) < 12 {
		t.Errorf("%d rows of %d mechanisms", len(all), len(mechanisms))
	}
	t.Logf("%d rows of %d mechanisms, and %d places of users", len(all), len(mechanisms), len(userPlaces))
}

// TestHostileRepositories: each row runs on the host without the protection, and not with it.
func TestHostileRepositories(t *testing.T) {
	if !has("git") {
		t.Skip("no git on this machine")
	}
	all := rows()
	for _, open := range []bool{true, false} {
		t.Run(map[bool]string{true: "without", false: "with"}[open], func(t *testing.T) {
			p := newPlace(t, open)
			p.prepare(t, all)
			before := make([]string, len(all))
			for i, r := range all {
				before[i] = state(filepath.Join(p.row(i), r.file))
			}
			p.plant(t, all)
			for i, r := range all {
				t.Run(strings.ReplaceAll(r.mechanism+": "+r.key, "/", "|"), func(t *testing.T) { p.try(t, i, r, before[i]) })
			}
		})
	}
}

// try sees whether a row reaches the host.
func (p place) try(t *testing.T, i int, r row, before string) {
	if r.run == "" || r.need != "" && !has(r.need) {
		if after := state(filepath.Join(p.row(i), r.file)); (after != before) != p.open {
			t.Errorf("%s was %q and is %q", r.file, before, after)
		}
		return
	}
	if _, err := os.Lstat(p.mark(i)); err == nil {
		t.Fatal("the program ran before anybody called it")
	}
	said := ""
	switch {
	case r.safe != "" && !p.open:
		got := git(p.row(i), strings.Fields(r.safe)[1:]...)
		if said = got.String(); got.Code == 125 {
			t.Errorf("agentjail %s: %s", r.safe, said)
		}
	default:
		expect := "EXPECT="
		if p.open {
			expect = "EXPECT=yes"
		}
		said, _ = asPerson(p.row(i), p.home(i), r.run, expect, "M="+p.mark(i))
	}
	_, err := os.Lstat(p.mark(i))
	if ran := err == nil; ran != p.open || strings.Contains(said, "were not read") {
		t.Errorf("the program ran on the host: %v, want %v\n%s", ran, p.open, said)
	}
}

// gitCommand is `agentjail git` as root calls it, whose home is $HOME.
func gitCommand(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(bin, append([]string{"git"}, args...)...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SUDO_") })
	return cmd
}

func git(dir string, args ...string) engine.Result {
	cmd := gitCommand(dir, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return engine.Result{Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()}
}

// TestUsersPlacesRunPrograms: a jail that has a place of the person's has the host run its program; with the default policy it does not get the place.
func TestUsersPlacesRunPrograms(t *testing.T) {
	for _, open := range []bool{true, false} {
		t.Run(map[bool]string{true: "without", false: "with"}[open], func(t *testing.T) {
			p := newPlace(t, open)
			home := engine.TempDir(t, "/home", "agentjail-hostile-")
			personsDir(t, home)
			script := strings.Builder{}
			script.WriteString(words + "cd " + home + "\n")
			for i, u := range userPlaces {
				if out, err := asPerson(home, home, "mkdir -p "+u.dir); err != nil {
					t.Fatal(err, out)
				}
				fmt.Fprintf(&script, "( M=%s; %s\n) </dev/null >/dev/null 2>&1\n", p.mark(i), u.jail)
			}
			if open {
				policy := engine.PolicyFile(t, fmt.Sprintf("[binds]\nprotect = false\nallow = [%q]\n", home))
				if r := engine.Run(t, bin, "--config", policy, "sandbox", "--workspace", home, "--", "sh", "-c", script.String()+"echo done"); r.Code != 0 || r.Stdout != "done\n" {
					t.Fatal(r)
				}
			}
			for i, u := range userPlaces {
				t.Run(strings.ReplaceAll(u.dir, "/", "|"), func(t *testing.T) { p.tryPlace(t, home, i, u) })
			}
			if open {
				return
			}
			if r := engine.Run(t, bin, "sandbox", "--workspace", home, "--", "true"); r.Code == 0 || !strings.Contains(r.Stderr, "refused") {
				t.Errorf("the home: %v", r)
			}
			if out, err := asPerson(home, home, "mkdir -p .cargo/registry"); err != nil {
				t.Fatal(err, out)
			}
			if r := engine.Run(t, bin, "sandbox", "--workspace", home+"/.cargo/registry", "--", "touch", "cached"); r.Code != 0 {
				t.Errorf("a cache: %v", r)
			}
		})
	}
}

// tryPlace sees whether a place of the person's reaches the host.
func (p place) tryPlace(t *testing.T, home string, i int, u userPlace) {
	if !p.open {
		r := engine.Run(t, bin, "sandbox", "--workspace", filepath.Join(home, u.dir), "--", "sh", "-c", "touch made")
		if r.Code == 0 || !strings.Contains(r.Stderr, "refused") || !strings.Contains(r.Stderr, "remedy") {
			t.Errorf("it was mounted: %v", r)
		}
	}
	if u.run == "" || u.need != "" && !has(u.need) {
		files, err := filepath.Glob(filepath.Join(home, u.file) + "*")
		if err != nil || (len(files) > 0) != p.open {
			t.Errorf("%s: %q, %v", u.file, files, err)
		}
		return
	}
	said, _ := asPerson(home, home, "M="+p.mark(i)+"; "+u.run)
	if _, err := os.Lstat(p.mark(i)); (err == nil) != p.open {
		t.Errorf("the program ran on the host: %v, want %v\n%s", err == nil, p.open, said)
	}
}
