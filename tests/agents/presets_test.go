package agents

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// preset writes a preset of the administrator's, for a program of the test's own.
func preset(t *testing.T, name, text string) {
	t.Helper()
	const dir = "/etc/agentjail/agents"
	env.Check(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, name+".toml")
	env.Check(t, os.WriteFile(path, []byte(text), 0o644))
	t.Cleanup(func() { os.Remove(path) })
}

// program writes an executable file where no sandbox has it without a mount, and returns its directory.
func program(t *testing.T, name, text string) string {
	t.Helper()
	dir := engine.TempDir(t, "/tmp", "agentjail-program-")
	env.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	return dir
}

// tool is a preset whose program is a script of an interpreter that lies beside it: a shell.
func tool(t *testing.T, more string) {
	t.Helper()
	dir := program(t, "tool", "#!/usr/bin/env interpreter\nif [ \"$1\" = --version ]; then echo tool 1.2.3; exit; fi\nexec sh \"$@\"\n")
	shell := env.Read(t, "/bin/sh")
	env.Check(t, os.WriteFile(filepath.Join(dir, "interpreter"), shell, 0o755))
	preset(t, "tool", fmt.Sprintf("program = \"tool\"\nplaces = [%q]\nminimum = \"1.2.0\"\ninstall = \"apt install tool\"\nhome.size = \"32MiB\"\n%s", dir, more))
}

func toolIn(t *testing.T, dir string, args ...string) engine.Result {
	t.Helper()
	return sandboxIn(t, dir, append([]string{"--agent", "tool", "--direct"}, args...)...)
}

// TestHomeIsOfOneProject: a home is the owner's, is kept for a project alone, and has a size; a second jail of the project does not share it.
func TestHomeIsOfOneProject(t *testing.T) {
	tool(t, "[home.files]\n\".tool/settings\" = \"first\"\n")
	dir, other := repository(t), repository(t)
	file := filepath.Join(program(t, "file", "text"), "file")
	at := strings.TrimSpace(toolIn(t, dir, "--home", "empty", "--", "-c", "echo ~").Stdout) + "/a/b/file"
	mount := []string{"--volume", file + ":" + at + ":ro", "--", "-c", "cat " + at}
	for _, c := range []struct {
		what, dir string
		args      []string
		want      string
	}{
		{"a new one has the preset's files", dir, []string{"--", "-c", "cd; cat .tool/settings; id -u; stat -c %u .tool .; ls -A; echo 1 >mine"}, "first1000\n1000\n1000\n.tool\n"},
		{"it is kept", dir, []string{"--", "-c", "cat ~/mine"}, "1\n"},
		{"another project has its own", other, []string{"--", "-c", "ls -A ~"}, ".tool\n"},
		{"empty", dir, []string{"--home", "empty", "--", "-c", "ls -A ~"}, ""},
		{"it has its size", dir, []string{"--", "-c", "head -c 100000000 /dev/zero >~/big; stat -c %s ~/big | wc -c; rm ~/big; cat ~/mine"}, "9\n1\n"},
		{"reset", dir, []string{"--home", "reset", "--", "-c", "ls -A ~"}, ".tool\n"},
		{"a mount in it, twice", dir, mount, "text"},
		{"a mount in it, twice", dir, mount, "text"},
		{"a link of the agent's in the way", dir, []string{"--", "-c", "rm -r ~/a; ln -s /etc ~/a"}, ""},
	} {
		if r := toolIn(t, c.dir, c.args...); r.Code != 0 || r.Stdout != c.want {
			t.Errorf("%s: %v, want %q", c.what, r, c.want)
		}
	}
	if r := toolIn(t, dir, mount...); r.Code != 125 || !strings.Contains(r.Stderr, "is in the way") {
		t.Errorf("a mount behind the link: %v", r)
	}
}

// TestHomesAreListedAndRemoved: a home takes up what is in it while no jail has it, is listed with its project, and is removed by id, project
// or age, by its owner under sudo, and not by another.
func TestHomesAreListedAndRemoved(t *testing.T) {
	tool(t, "")
	dir, other := repository(t), repository(t)
	type row struct {
		ID, Agent, Project, State string
		Size                      int64
		Expired                   bool
	}
	list := func(env ...string) (out []row) {
		t.Helper()
		cmd := exec.Command(bin, "home", "list", "--json")
		cmd.Env = append(os.Environ(), env...)
		var got struct{ Homes []row }
		if r := engine.RunPrepared(t, cmd); r.Code != 0 || json.Unmarshal([]byte(r.Stdout), &got) != nil {
			t.Fatalf("%v", r)
		}
		for _, h := range got.Homes {
			if h.Project == dir || h.Project == other {
				out = append(out, h)
			}
		}
		return out
	}
	for _, d := range []string{other, dir} {
		if r := toolIn(t, d, "--", "-c", "head -c 20000000 /dev/zero >~/big; rm ~/big; echo kept >~/kept"); r.Code != 0 {
			t.Fatalf("%v", r)
		}
	}
	got := list()
	if len(got) != 2 || got[0].Project != dir || got[0].Agent != "tool" || got[0].State != "kept" || got[0].Size > 8<<20 {
		t.Fatalf("%+v, want two homes that take up less than 8 of 32 MiB, the last one first", got)
	}
	// What was freed is there for the next jail.
	if r := toolIn(t, dir, "--", "-c", "cat ~/kept; head -c 20000000 /dev/zero >~/big && rm ~/big"); r.Code != 0 || r.Stdout != "kept\n" {
		t.Errorf("%v", r)
	}
	if got := list("SUDO_UID=1234"); len(got) > 0 {
		t.Errorf("another user has %+v", got)
	}
	if r := engine.Run(t, bin, "home", "remove", got[0].ID[:len(got[0].ID)-4]); r.Code != 0 || !strings.Contains(r.Stdout, dir) {
		t.Errorf("%v", r)
	}
	if r := engine.Run(t, bin, "home", "remove", "--expired"); r.Code != 0 || len(list()) != 1 {
		t.Errorf("of one that was used just now: %v, %+v", r, list())
	}
	path := filepath.Join("/var/lib/agentjail/homes/1000", got[1].ID+".ext4")
	env.Check(t, os.Chtimes(path, time.Unix(0, 0), time.Unix(0, 0)))
	if got := list(); len(got) != 1 || !got[0].Expired {
		t.Errorf("of an old one: %+v", got)
	}
	if r := engine.Run(t, bin, "home", "remove", "--expired"); r.Code != 0 || len(list()) != 0 {
		t.Errorf("of an old one: %v, %+v", r, list())
	}
	if left, _ := filepath.Glob("/var/lib/agentjail/homes/1000/" + got[1].ID + "*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestHomeInUse: a second jail of a project is refused by the first one's name, until that has ended, however it does.
func TestHomeInUse(t *testing.T) {
	tool(t, "")
	dir := repository(t)
	first := exec.Command(bin, "sandbox", "--agent", "tool", "--direct", "--", "-c", "touch here; exec sleep 1000")
	first.Dir = dir
	env.Check(t, first.Start())
	env.Eventually(t, "the first jail's file", func() bool { _, err := os.Stat(filepath.Join(dir, "here")); return err == nil })
	for _, home := range []string{"kept", "reset"} {
		r := toolIn(t, dir, "--home", home, "--", "-c", "true")
		if r.Code != 125 || !strings.Contains(r.Stderr, "sandbox-") || !strings.Contains(r.Stderr, "(remedy: wait for its end, or --home empty)") {
			t.Errorf("--home %s beside the first: %v", home, r)
		}
	}
	busy := toolIn(t, dir, "--", "-c", "true")
	id := regexp.MustCompile("sandbox-[0-9a-f]+").FindString(busy.Stderr)
	if r := engine.Run(t, bin, "inspect", id); r.Code != 0 {
		t.Errorf("a jail with a home: %v", r)
	}
	if r := toolIn(t, dir, "--home", "empty", "--", "-c", "echo ran"); r.Code != 0 || r.Stdout != "ran\n" {
		t.Errorf("an empty home beside the first: %v", r)
	}
	if r := engine.Run(t, bin, "home", "remove", dir); r.Code == 0 || !strings.Contains(r.Stderr, id+" has the home of tool") {
		t.Errorf("removing the home of a running jail: %v", r)
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	env.Eventually(t, "the home of a killed one", func() bool { return toolIn(t, dir, "--", "-c", "true").Code == 0 })
}

// TestPresetMistakesHaveRemedies: mistakes have the status 125 and a remedy.
func TestPresetMistakesHaveRemedies(t *testing.T) {
	tool(t, "")
	dir := repository(t)
	preset(t, "absent", "program = \"no-such-agent\"\ninstall = \"npm install --global no-such-agent\"\n")
	old := program(t, "old", "#!/bin/sh\necho 1.1.9\n")
	preset(t, "old", fmt.Sprintf("program = \"old\"\nplaces = [%q]\nminimum = \"1.2.0\"\ninstall = \"apt install old\"\n", old))
	preset(t, "wrong", "program = \"sh\"\ninstall = \"x\"\nhome.sise = \"1GiB\"\n")
	preset(t, "writable", "program = \"sh\"\ninstall = \"x\"\n")
	env.Check(t, os.Chmod("/etc/agentjail/agents/writable.toml", 0o666))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--agent", "absent"}, "(remedy: npm install --global no-such-agent;"},
		{[]string{"--agent", "old"}, "old: 1.1.9, and the preset needs 1.2.0 (remedy: apt install old)"},
		{[]string{"--agent", "wrong"}, `line 3: unknown key "home.sise"`},
		{[]string{"--agent", "writable"}, "writable.toml"},
		{[]string{"--agent", "none-of-these"}, "(remedy: one of claude"},
		{[]string{"--agent", "../../etc/passwd"}, "is no preset's name"},
		{[]string{"--agent", "tool", "--home", "mine"}, "must be one of kept, empty, reset"},
		{[]string{"--agent", "tool", "--key", "/etc/agentjail/k"}, "the preset tool has no credential"},
		{[]string{"--agent", "tool", "--direct", "--review"}, "exclude each other"},
		{[]string{"--agent", "tool", "--direct", "--view", "x"}, "there is none: --direct"},
		{[]string{"--direct"}, "(remedy: --agent NAME)"},
		{[]string{"--home", "empty"}, "(remedy: --agent NAME)"},
	} {
		if r := sandboxIn(t, dir, c.args...); r.Code != 125 || !strings.Contains(r.Stderr, c.want) {
			t.Errorf("%v: %v, want %q", c.args, r, c.want)
		}
	}
}

// TestAgentWorksInView: an agent's workspace is a view where one can be made. Where not, the first lines have the reason, and policy's own
// views are never given up.
func TestAgentWorksInView(t *testing.T) {
	engine.NeedsViews(t)
	tool(t, "")
	small(t)
	mine, roots := repository(t), engine.TempDir(t, "/tmp", "agentjail-agents-")
	args := []string{"--agent", "tool", "--home", "empty"}
	for _, c := range []struct {
		what, dir string
		args      []string
		want      string
		written   bool
	}{
		{"by default", mine, []string{"--", "-c", "touch made"}, ", written in a view: ", false},
		{"read-only", mine, []string{"--read-only", "--", "-c", "! touch made"}, ", read-only\n", false},
		{"--direct", mine, []string{"--direct", "--", "-c", "touch made"}, ", written at once: --direct\n", true},
		{"root's", roots, []string{"--tighten", "binds.owner=process", "--", "-c", "touch made"}, "no layer can map root's " + roots + " (remedy: chown", false},
	} {
		r := sandboxIn(t, c.dir, append(args, c.args...)...)
		_, err := os.Stat(filepath.Join(c.dir, "made"))
		if r.Code != 0 != (c.what == "root's") || r.Code != 0 && r.Code != 125 || !strings.Contains(r.Stderr, c.want) || c.written != (err == nil) {
			t.Errorf("%s: %v, want %q and written %v", c.what, r, c.want, c.written)
		}
	}
	text := fmt.Sprintf("[workspace]\nsize = \"64MiB\"\nfiles = 4096\nreview = [%q]\n", filepath.Dir(mine)+"/*")
	env.Check(t, os.WriteFile("/etc/agentjail/config.toml", []byte(text), 0o644))
	if r := sandboxIn(t, mine, append(args, "--direct", "--", "-c", "true")...); r.Code != 125 || !strings.Contains(r.Stderr, "workspace.review") {
		t.Errorf("--direct against policy: %v", r)
	}
}

// TestWithoutNamesNothingIsReached: an agent without names reaches nothing, whatever the policy lists. The caller may have come to the project by a link.
func TestWithoutNamesNothingIsReached(t *testing.T) {
	tool(t, "")
	link := filepath.Join(t.TempDir(), "link")
	env.Check(t, os.Symlink(repository(t), link))
	r := toolIn(t, link, "--", "-c", "cat /proc/net/dev | wc -l; getent hosts example.test; echo $?")
	if r.Stdout != "3\n2\n" || !strings.Contains(r.Stderr, "  names       none\n") {
		t.Errorf("%v", r)
	}
}

// TestRefusalsAreCountedOnce: the line at an agent's end, ls, denied and the receipt count the refusals of all sources alike.
func TestRefusalsAreCountedOnce(t *testing.T) {
	tool(t, "")
	r := toolIn(t, repository(t), "--allow", "allowed.example.test", "--tighten", "limits.pids=20", "--", "-c",
		"getent hosts one.test; getent hosts two.test; for i in $(seq 40); do sleep 1 & done 2>/dev/null; wait; true")
	m := regexp.MustCompile(`refused: (\d+) \(agentjail denied (\S+)\)`).FindStringSubmatch(r.Stderr)
	if m == nil || m[1] == "0" {
		t.Fatalf("%v", r)
	}
	id, want := m[2], m[1]
	var list struct {
		Jails []struct {
			ID      string
			Refused int
		}
	}
	var denied struct {
		Denied []struct {
			Kind, What, Remedy string
			Count              int
		}
	}
	var receipt struct{ Denied, Limits []struct{ Count int } }
	for what, into := range map[string]any{"ls --all": &list, "denied " + id: &denied, "receipt " + id: &receipt} {
		args := strings.Fields(what)
		r := engine.Run(t, bin, slices.Insert(args, 1, "--json")...)
		if err := json.Unmarshal([]byte(r.Stdout), into); err != nil {
			t.Fatalf("%s: %v, %v", what, err, r)
		}
	}
	got := map[string]int{}
	for _, j := range list.Jails {
		if j.ID == id {
			got["ls"] = j.Refused
		}
	}
	for _, d := range denied.Denied {
		got["denied"] += d.Count
	}
	for _, d := range append(receipt.Denied, receipt.Limits...) {
		got["receipt"] += d.Count
	}
	for what, n := range got {
		if fmt.Sprint(n) != want {
			t.Errorf("%s counts %d refusals, the line at the end %s", what, n, want)
		}
	}
	for _, d := range denied.Denied {
		if strings.HasPrefix(d.Kind, "name.") && d.Remedy != fmt.Sprintf("--allow %q", d.What) {
			t.Errorf("the remedy of %s is %q: --allow has replaced policy's names", d.What, d.Remedy)
		}
	}
	if r := engine.Run(t, bin, "why", id, "one.test:443"); r.Code != 1 || !strings.Contains(r.Stdout, "--allow one.test:443") || strings.Contains(r.Stdout, "network reload") {
		t.Errorf("why: %v", r)
	}
	if r := engine.Run(t, bin, "why", id, "allowed.example.test:443"); r.Code != 0 {
		t.Errorf("why of an allowed one: %v", r)
	}
	if len(got) != 3 || got["denied"] < 3 { // two names, and processes
		t.Errorf("%v, want two names and processes in each", got)
	}
}
