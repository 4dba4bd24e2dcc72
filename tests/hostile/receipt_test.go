package hostile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// nestedAttack is a jail that makes a repository within a protected one and adds it: the host's git enters it.
const nestedAttack = words + `
cd r; nested vendor; evil vendor/p; git -C vendor config core.fsmonitor ./p
echo '* filter=e' >vendor/.gitattributes; evil vendor/q cat; git -C vendor config filter.e.clean ./q
git add vendor 2>/dev/null; echo 2 >vendor/f; mkdir vendor/.vscode; echo {} >vendor/.vscode/tasks.json; echo x >new; echo done`

// TestNestedRepository: the host's own `git status` and `git diff` run what a jail left in a repository that it made; `agentjail git` does not, and
// the receipt of that jail names the repository and the gitlink before anything else.
func TestNestedRepository(t *testing.T) {
	if !has("git") {
		t.Skip("no git on this machine")
	}
	p := newPlace(t, true)
	personsDir(t, p.dir+"/ws")
	home := filepath.Join(p.dir, "homes")
	person := func(script string) string {
		t.Helper()
		out, err := asPerson(p.dir+"/ws", home, script, "M="+p.mark(0))
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return out
	}
	person(`repo r; git config --global user.name Ann; git config --global user.email ann@x.test`)
	journals := engine.TempDir(t, "/var/tmp", "agentjail-hostile-journal-")
	policy := engine.PolicyFile(t, "[journal]\nenabled = true\ndir = \""+journals+"\"\n")
	r := engine.Run(t, bin, "--config", policy, "sandbox", "--workspace", p.dir+"/ws", "--env", "M="+p.mark(0), "--", "sh", "-c", nestedAttack)
	if r.Code != 0 || r.Stdout != "done\n" {
		t.Fatal(r)
	}

	// The receipt.
	found, err := filepath.Glob(journals + "/*")
	if err != nil || len(found) == 0 {
		t.Fatalf("no journal: %v", err)
	}
	id := regexp.MustCompile(`sandbox-[0-9a-f]{12}`).FindString(strings.Join(found, " "))
	text := engine.Run(t, bin, "--config", policy, "receipt", id)
	at := p.dir + "/ws/r"
	for _, want := range []string{"gitlink     " + at + "/vendor: ", "repository  " + at + "/vendor: ", "setting     " + at + "/vendor/.vscode: ", "agentjail git DIR status"} {
		if !strings.Contains(text.Stdout, want) {
			t.Errorf("the receipt does not have %q\n%s", want, text.Stdout)
		}
	}
	if loud, rings := strings.Index(text.Stdout, "LOOK "), strings.Index(text.Stdout, "ring "); loud < 0 || rings >= 0 && rings < loud {
		t.Errorf("it does not come first:\n%s", text.Stdout)
	}
	var parsed struct {
		Touched struct {
			Arrived []struct{ Kind, Path, Why string }
		}
	}
	asJSON := engine.Run(t, bin, "--config", policy, "receipt", "--json", id)
	if err := json.Unmarshal([]byte(asJSON.Stdout), &parsed); err != nil || len(parsed.Touched.Arrived) < 3 || parsed.Touched.Arrived[0].Kind != "gitlink" || parsed.Touched.Arrived[0].Path != at+"/vendor" {
		t.Errorf("%v: %+v", err, parsed)
	}
	page := filepath.Join(p.dir, "page.html")
	if r := engine.Run(t, bin, "--config", policy, "receipt", "--html", page, id); r.Code != 0 {
		t.Error(r)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), `id="arrived"`) || !strings.Contains(string(html), at+"/vendor") {
		t.Errorf("the page does not have it: %v", err)
	}

	// `agentjail git`, which leaves the host alone.
	t.Setenv("HOME", home)
	ran := func() bool {
		_, err := os.Lstat(p.mark(0))
		return err == nil
	}
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"r status", "vendor", 0},
		{"r diff", "vendor", 0},
		{"r/vendor status", "q", 0},
		{"r add -A", "", 0},
		{"r commit -q -m work", "", 0},
		{"r log -1 --format=%an<%ae>%cn<%ce>", "Ann<ann@x.test>Ann<ann@x.test>", 0},
		{"r show --stat", "new", 0},
		{"r diff --quiet HEAD~1", "", 1},
		{"r rev-parse --verify -q nothing", "", 1},
		{"r push", "git clone --no-local", 125},
		{"r commit -S -m x", "keys", 125},
		{"r -C / status", "DIR", 125},
		{"nowhere status", "", 125},
		{"--nonsense", "", 125},
		{"r config a.b c", "Read-only", 255},
		{"r commit --allow-empty", "-m or -F", 1},
		{"r no-such-command", "without a network", 1},
	} {
		got := git(p.dir+"/ws", append(strings.Fields("--"), strings.Fields(c.args)...)...)
		if c.args == "--nonsense" {
			got = git(p.dir+"/ws", c.args)
		}
		if got.Code != c.code || !strings.Contains(got.Stdout+got.Stderr, c.says) {
			t.Errorf("agentjail git %s: want status %d and %q: %v", c.args, c.code, c.says, got)
		}
		if ran() {
			t.Fatalf("agentjail git %s: the program ran on the host", c.args)
		}
	}
	// What it made is the person's, and no root's.
	if out := person("find r ! -user 1000 | head -3"); out != "" {
		t.Errorf("others' files: %s", out)
	}

	// The documented command without it.
	person("cd r; git -c core.fsmonitor= -c core.hooksPath=/dev/null -c safe.bareRepository=explicit -c diff.ignoreSubmodules=all status")
	if ran() {
		t.Error("the command of docs/protected-paths.md runs the program")
	}
	for _, command := range []string{"status", "diff", "-c core.fsmonitor= -c core.hooksPath=/dev/null -c safe.bareRepository=explicit status"} {
		os.Remove(p.mark(0))
		person("touch -d '1 hour ago' r/vendor/f; cd r; git " + command)
		if !ran() {
			t.Errorf("git %s on the host runs nothing: the test shows nothing", command)
		}
	}
}

// TestGitOnTerminal: what a repository holds does not reach the terminal as it is.
func TestGitOnTerminal(t *testing.T) {
	if !has("git") {
		t.Skip("no git on this machine")
	}
	p := newPlace(t, true)
	personsDir(t, p.dir+"/ws")
	if out, err := asPerson(p.dir+"/ws", p.dir+"/homes", `repo r; cd r; git commit -q --allow-empty -m "$(printf 'title\n\n\033]0;evil\007\033[2Jx')"`); err != nil {
		t.Fatal(err, out)
	}
	cmd := gitCommand(p.dir+"/ws", "r", "log")
	term := engine.OnTerminal(t, 40, 100, cmd)
	term.Expect(`\x1b]0;evil\x07`)
	if code := term.Wait(); code != 0 || strings.Contains(term.Said(), "\x1b") {
		t.Errorf("status %d, %q", code, term.Said())
	}
}

// TestPersonAndJailShareRepository: a person and a jail work in one repository at the same time, as they would without the protection.
func TestPersonAndJailShareRepository(t *testing.T) {
	if !has("git") {
		t.Skip("no git on this machine")
	}
	p := newPlace(t, true)
	personsDir(t, p.dir+"/ws")
	home := p.dir + "/homes"
	person := func(script string) string {
		t.Helper()
		out, err := asPerson(p.dir+"/ws/r", home, script)
		if err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
		return out
	}
	if out, err := asPerson(p.dir+"/ws", home, "repo r; sub=; mkdir r/.vscode; echo {} >r/.vscode/settings.json; cd r; git add .; git commit -qm editor"); err != nil {
		t.Fatal(err, out)
	}
	jail := startJail(t, "--workspace", p.dir+"/ws")
	inside := func(script string) {
		t.Helper()
		if code := jail.do("cd " + p.dir + "/ws/r; " + script); code != "0" {
			t.Errorf("inside: %s: status %s", script, code)
		}
	}
	inside(words + "echo in >>f; git commit -qam inside; git checkout -q -b topic; echo x >new; git add new; git commit -qm new; git checkout -q main; git merge -q topic")
	person("git status --porcelain; echo out >>f; git commit -qam outside; git log --oneline; git stash -q || true; git checkout -q -b theirs; git checkout -q main")
	inside("test -z \"$(git status --porcelain)\"; grep -q out f")
	person("vim -es -u NONE -c 's/$/ edited/' -c wq f; grep -q edited f; git commit -qam edited")
	if has("npm") {
		person(`echo '{"name":"me","version":"1.0.0"}' >package.json; npm install --offline --no-audit --no-fund >/dev/null 2>&1; git add -A; git commit -qm npm`)
		inside(words + "npm pkg set description=x >/dev/null; git add -A; git commit -qm pkg")
	}
	inside("! echo x >.git/hooks/post-commit; ! mkdir .husky/x; ! echo x >.vscode/settings.json") // the protection is there meanwhile
	_ = jail.End()
	if out := person("git fsck 2>&1 | grep -c error || true; git status --porcelain"); out != "0\n" {
		t.Errorf("afterwards: %q", out)
	}
}
