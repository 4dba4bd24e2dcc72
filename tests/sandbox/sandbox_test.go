// Package sandbox tries `agentjail sandbox`: the jail without an engine.
package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var bin string

func TestMain(m *testing.M) { os.Exit(engine.MainBare(m, "it runs jails", &bin)) }

func sandbox(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	r := engine.Run(t, bin, append([]string{"sandbox"}, args...)...)
	return r.Code, r.Stdout, r.Stderr
}

func sh(t *testing.T, script string) string {
	t.Helper()
	code, out, errs := sandbox(t, "--", "sh", "-c", script)
	if code != 0 {
		t.Fatalf("%s: status %d\n%s%s", script, code, out, errs)
	}
	return out
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"true"}, 0},
		{[]string{"sh", "-c", "exit 7"}, 7},
		{[]string{"no-such-command"}, 127},
		{[]string{"/etc/passwd"}, 126},
		{[]string{"/etc"}, 126},
		{[]string{"sh", "-c", "sh -c 'kill -TERM $$'"}, 143},
	} {
		if code, out, errs := sandbox(t, append([]string{"--"}, c.args...)...); code != c.code {
			t.Errorf("%v: status %d, want %d\n%s%s", c.args, code, c.code, out, errs)
		}
	}
}

// TestProgramOfTheHostAlone: a program that only the host has is not found, with the reason; one of the jail's behind it in PATH is.
func TestProgramOfTheHostAlone(t *testing.T) {
	dir := engine.TempDir(t, "/tmp", "agentjail-program-")
	program, link := filepath.Join(dir, "true"), filepath.Join(engine.TempDir(t, "/opt", "agentjail-program-"), "link")
	env.Check(t, os.WriteFile(program, []byte("#!/bin/sh\nexit 9\n"), 0o755))
	env.Check(t, os.Symlink(program, link))
	env.Check(t, os.Chmod(dir, 0o755))
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"--", program}, 127},
		{[]string{"--", link}, 127},
		{[]string{"--env", "PATH=" + dir, "--", "true"}, 127},
		{[]string{"--env", "PATH=" + dir + ":/usr/bin:/bin", "--", "true"}, 0},
		{[]string{"--volume", program + ":" + program + ":ro", "--", program}, 9},
		{[]string{"--volume", dir + ":/x:ro", "--", "/x/true"}, 9},
	} {
		code, _, errs := sandbox(t, c.args...)
		if code != c.code || code == 127 && !strings.Contains(errs, "(remedy: --volume "+program+":"+program+":ro)") {
			t.Errorf("%v: status %d, want %d: %s", c.args, code, c.code, errs)
		}
	}
	r := engine.Run(t, "unshare", "--mount", "--propagation", "private", "sh", "-ec", `mount --bind "$1" "$2"; exec "$0" sandbox -- "$2/true"`, bin, dir, filepath.Dir(link))
	if r.Code != 127 || !strings.Contains(r.Stderr, "/true: not in the jail, where ") {
		t.Errorf("in a mount that is left out: %v", r)
	}
}

func TestOutputIsTheCommandsOwn(t *testing.T) {
	code, out, errs := sandbox(t, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
	if code != 3 || out != "out\n" || errs != "err\n" {
		t.Errorf("status %d, output %q, error %q", code, out, errs)
	}
}

func TestWorkspaceBelongsToItsOwner(t *testing.T) {
	dir := engine.Workspace(t, nil)
	code, out, errs := sandbox(t, "--workspace", dir, "--", "sh", "-c", "pwd; id -u; echo made >made && mkdir sub && cat made")
	if code != 0 || out != dir+"\n1000\nmade\n" {
		t.Fatalf("status %d, output %q, error %q", code, out, errs)
	}
	for _, name := range []string{"made", "sub"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, name), &st); err != nil || st.Uid != 1000 || st.Gid != 1000 {
			t.Errorf("%s belongs to %d:%d (%v), want 1000:1000", name, st.Uid, st.Gid, err)
		}
	}
	if code, _, _ := sandbox(t, "--read-only", "--workspace", dir, "--", "touch", "made"); code == 0 {
		t.Error("a read-only workspace was written")
	}
	env.Check(t, os.Chmod(dir, 0o700))
	if code, out, errs := sandbox(t, "--read-only", "--workspace", dir, "--", "stat", "-c", "%u", "made"); code != 0 || out != "1000\n" {
		t.Errorf("a private one, read-only: status %d, output %q, error %q", code, out, errs)
	}
	// Its own path is no exception.
	if code, _, errs := sandbox(t, "--volume", "/etc/shadow:/etc/shadow:ro", "--", "true"); code != 125 || !strings.Contains(errs, "refused: it holds the host's configuration and secrets") {
		t.Errorf("a secret at its own path: status %d, %s", code, errs)
	}
}

func TestHostStaysOut(t *testing.T) {
	// Readable for root alone, in a directory that the sandbox does show.
	secret := "/etc/agentjail-test-secret"
	env.Check(t, os.WriteFile(secret, []byte("secret"), 0o600))
	defer os.Remove(secret)
	for _, try := range []string{
		"cat " + secret, "cat /etc/shadow", "touch /etc/x", "touch /usr/x", "touch /x", "chown 1 /tmp", "mount -t tmpfs x /mnt",
		"kill -9 " + fmt.Sprint(os.Getpid()), "cat /proc/1/environ | grep .; false", "echo x >/proc/sys/vm/swappiness",
	} {
		if code, out, _ := sandbox(t, "--", "sh", "-c", try); code == 0 {
			t.Errorf("%s worked: %s", try, out)
		}
	}
	if out := sh(t, "ls -A /home /tmp /run | grep -v : | grep -v '^$' || true"); strings.Contains(out, "agentjail-") {
		t.Errorf("the host's directories show: %q", out)
	}
	if out := sh(t, "tail -n +3 /proc/net/dev | grep -v ' lo:' || true"); out != "" {
		t.Errorf("an interface: %q", out)
	}
}

// TestOwnName: a sandbox finds its own name, in each network mode, also with a hosts file of the caller's.
func TestOwnName(t *testing.T) {
	hosts := filepath.Join(engine.TempDir(t, "/var/tmp", "agentjail-hosts-"), "hosts")
	env.Check(t, os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"), 0o644))
	for _, with := range [][]string{nil, {"--allow", "example.org"}, {"--volume", hosts + ":/etc/hosts:ro"}} {
		code, out, errs := sandbox(t, append(with, "--", "python3", "-c", "import socket; print(socket.gethostbyname(socket.gethostname()))")...)
		if code != 0 || out != "127.0.0.1\n" {
			t.Errorf("%v: %d, %q, %s", with, code, out, errs)
		}
	}
}

func TestNoVariableIsPassedOn(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("WANTED", "yes")
	if out := sh(t, "env"); strings.Contains(out, "hunter2") {
		t.Errorf("the environment was passed on:\n%s", out)
	}
	_, out, _ := sandbox(t, "--env", "WANTED", "--env", "SET=x", "--", "sh", "-c", "echo $WANTED $SET")
	if out != "yes x\n" {
		t.Errorf("--env gave %q", out)
	}
}

func TestTighten(t *testing.T) {
	code, out, errs := sandbox(t, "--tighten", "root.size=4MiB", "--tighten", "tmpfs.size=1m", "--", "sh", "-c",
		"head -c 3000000 /dev/zero >/tmp/f; wc -c </tmp/f")
	if code != 0 || strings.TrimSpace(out) != "1048576" {
		t.Errorf("status %d, %q %q: the tightened tmpfs should hold 1 MiB", code, out, errs)
	}
}

// TestProject: a workspace's own policy file narrows the sandbox, and refuses it where it has a
// mistake or gives more.
func TestProject(t *testing.T) {
	dir := engine.Workspace(t, nil)
	run := func(text string) (int, string, string) {
		t.Helper()
		env.Check(t, os.WriteFile(filepath.Join(dir, ".agentjail.toml"), []byte(text), 0o644))
		return sandbox(t, "-w", dir, "--", "sh", "-c", "df -k /tmp | tail -n 1 | awk '{print $2}'; echo x 2>/dev/null >>.agentjail.toml || echo protected")
	}
	if code, out, errs := run("tmpfs.size = \"1MiB\"\n"); code != 0 || out != "1024\nprotected\n" {
		t.Errorf("status %d, %q, %q", code, out, errs)
	}
	for text, want := range map[string]string{
		"tmpfs.size = \"900GiB\"\n":            "line 1: tmpfs.size",
		"\ntmpfs.sise = \"1MiB\"\n":            `line 2: unknown key "tmpfs.sise" (did you mean "tmpfs.size"?)`,
		"delegate = \"crun\"\n":                "cannot set it",
		"limits.pids = \"many\"\n":             "whole number",
		"binds.unprotect = [\".git/hooks\"]\n": "only narrow",
		"network.mode = \"engine\"\n":          "only narrow",
	} {
		if code, out, errs := run(text); code != 125 || out != "" || !strings.Contains(errs, want) || !strings.Contains(errs, "remedy") {
			t.Errorf("%q: status %d, %q, %q", text, code, out, errs)
		}
	}
}

// TestNothingDenied: a sandbox that requests nothing has no refusals in its journal, and starts
// where refusals stop a start.
func TestNothingDenied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.toml")
	env.Check(t, os.WriteFile(path, []byte("on_loosen = \"refuse\"\n"), 0o644))
	if code, out, errs := sandbox(t, "--config", path, "--", "hostname"); code != 0 || errs != "" {
		t.Errorf("on_loosen = refuse: status %d, %q, %q", code, out, errs)
	}
	out, err := exec.Command(bin, "journal", "--json").Output()
	env.Check(t, err)
	var all struct{ Journals []struct{ Name string } }
	if err := json.Unmarshal(out, &all); err != nil || len(all.Journals) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	out, err = exec.Command(bin, "denied", "--json", all.Journals[0].Name).Output()
	var denied struct{ Denied []any }
	if err != nil || json.Unmarshal(out, &denied) != nil || len(denied.Denied) != 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestCredentials: a credential that ends TLS, and one of ssh, start in a sandbox, where refusals stop a start. What the
// jail is to trust is in a file that the machine need not have.
func TestCredentials(t *testing.T) {
	for name, c := range map[string]struct{ credential, file, want string }{
		"tls": {"from = \"file:DIR/secret\"\nheader = \"Authorization: Bearer\"\ntls = \"end\"", "/etc/agentjail/bundle.pem", "BEGIN CERTIFICATE"},
		"ssh": {"from = \"file:DIR/key\"\nssh = \"git\"\nknown_hosts = \"DIR/known\"", "/etc/ssh/ssh_known_hosts", "end.example.test ssh-ed25519 "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := engine.TempDir(t, "/etc", "agentjail-credential-")
			script := `ssh-keygen -q -t ed25519 -N '' -f key && echo "end.example.test $(cut -d' ' -f1,2 key.pub)" > known; umask 077; echo secret-of-the-test > secret`
			if out, err := exec.Command("sh", "-c", "cd "+dir+"; "+script).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			policy := filepath.Join(dir, "policy.toml")
			text := "on_loosen = \"refuse\"\nnetwork.mode = \"names\"\nnetwork.allow = [\"end.example.test:22,443\"]\n" +
				"[credentials.end]\nhosts = [\"end.example.test\"]\n" + c.credential + "\n"
			env.Check(t, os.WriteFile(policy, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644))
			code, out, errs := sandbox(t, "--config", policy, "--", "cat", c.file)
			if code != 0 || !strings.Contains(out, c.want) {
				t.Errorf("status %d, %.200q, %s", code, out, errs)
			}
		})
	}
}

// TestPublish: a server in a sandbox is reached at the host's port.
func TestPublish(t *testing.T) {
	dir := engine.Workspace(t, nil)
	env.Check(t, os.WriteFile(filepath.Join(dir, "page"), []byte("from the sandbox\n"), 0o644))
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	env.Check(t, err)
	at := l.Addr().String()
	l.Close()
	_, port, _ := strings.Cut(at, ":")
	cmd := exec.Command(bin, "sandbox", "--workspace", dir, "--publish", port+":80", "--", "python3", "-m", "http.server", "80")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	env.Check(t, cmd.Start())
	var got string
	served := env.Poll(env.Patience, func() bool {
		r, err := http.Get("http://" + at + "/page")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		got = string(text)
		return err == nil && r.StatusCode == http.StatusOK
	})
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	err = cmd.Wait()
	if !served || got != "from the sandbox\n" {
		t.Errorf("%q, %v: %s", got, err, errs.String())
	}
}

// TestTimeoutEndsTheCommand: a command that outlives its time is ended, also one that ignores SIGTERM's friends.
func TestTimeoutEndsTheCommand(t *testing.T) {
	if code, out, errs := sandbox(t, "--timeout", "1s", "--", "sh", "-c", "trap 'echo ended; exit 3' TERM; sleep 1000 & wait"); code != 124 || out != "ended\n" || !strings.Contains(errs, "--timeout") {
		t.Errorf("status %d, %q, %q", code, out, errs)
	}
	if code, out, errs := sandbox(t, "--timeout", "10m", "--", "sh", "-c", "echo early; exit 7"); code != 7 || out != "early\n" {
		t.Errorf("in time: status %d, %q, %q", code, out, errs)
	}
	if code, _, errs := sandbox(t, "--timeout", "-1s", "--", "true"); code != 125 {
		t.Errorf("less than no time: status %d, %q", code, errs)
	}
}

// TestVolumes: directories and files at other places, read-only or not, programs in them, and
// several workspaces.
func TestVolumes(t *testing.T) {
	dirs := make([]string, 3)
	for i := range dirs {
		dirs[i] = t.TempDir()
		env.Check(t, os.Chown(dirs[i], 1000, 1000))
		env.Check(t, os.WriteFile(filepath.Join(dirs[i], "tool"), fmt.Appendf(nil, "#!/bin/sh\necho tool %d\n", i), 0o755))
	}
	if code, out, errs := sandbox(t, "-w", dirs[0], "-w", dirs[1], "-v", dirs[2]+":/srv/data:ro", "--", "sh", "-c",
		"pwd; ./tool; "+dirs[1]+"/tool; /srv/data/tool; touch here "+dirs[1]+"/there; touch /srv/data/x 2>/dev/null || echo read-only"); code != 0 ||
		out != dirs[0]+"\ntool 0\ntool 1\ntool 2\nread-only\n" {
		t.Errorf("status %d, %q, %q", code, out, errs)
	}
	for _, made := range []string{dirs[0] + "/here", dirs[1] + "/there"} {
		if fi, err := os.Stat(made); err != nil || fi.Sys().(*syscall.Stat_t).Uid != 1000 {
			t.Errorf("%s: %v, %+v", made, err, fi)
		}
	}
	if code, out, errs := sandbox(t, "-v", dirs[2]+":/srv/data:ro", "--env", "PATH=/srv/data:/usr/bin", "--", "tool"); code != 0 || out != "tool 2\n" {
		t.Errorf("by PATH: status %d, %q, %q", code, out, errs)
	}
	for _, bad := range []string{"x", ":/x", "/tmp:x", "/tmp:/", "/tmp:/x:z", "/tmp:/x:ro:ro", "/nonexistent:/x"} {
		if code, _, errs := sandbox(t, "-v", bad, "--", "true"); code != 125 || errs == "" {
			t.Errorf("-v %s: status %d, %q", bad, code, errs)
		}
	}
	for _, bad := range []string{"/", dirs[0] + "/tool"} {
		if code, _, errs := sandbox(t, "-w", bad, "--", "true"); code != 125 || !strings.Contains(errs, "remedy") {
			t.Errorf("-w %s: status %d, %q", bad, code, errs)
		}
	}
}

// TestBorrowedObjects: a repository that needs another one, which the sandbox has not, is reported,
// and the command runs.
func TestBorrowedObjects(t *testing.T) {
	dir := engine.Workspace(t, nil)
	script := `set -e; git init -q repo; cd repo; git -c user.name=A -c user.email=a@example.test commit -q --allow-empty -m first; cd ..; git clone -q --shared repo borrows; chown -R 1000:1000 .`
	if out, err := exec.Command("sh", "-c", "cd "+dir+"; "+script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code, out, errs := sandbox(t, "-w", filepath.Join(dir, "borrows"), "--", "echo", "it ran"); code != 0 || out != "it ran\n" || !strings.Contains(errs, "borrow") {
		t.Errorf("status %d, %q, %q", code, out, errs)
	}
}

// TestLinkedWorkTree: commits in a linked work tree reach its repository, in the caller's name.
func TestLinkedWorkTree(t *testing.T) {
	dir := t.TempDir()
	env.Check(t, os.Chmod(dir, 0o755))
	home := filepath.Join(dir, "home")
	script := `set -e; mkdir home repo; git config --file home/.gitconfig user.name "A Caller"; git config --file home/.gitconfig user.email caller@example.test
		export HOME=$PWD/home; cd repo; git init -q; echo 1 >f; git add f; git commit -qm first; git worktree add -q ../tree; cd ..; chown -R 1000:1000 .`
	if out, err := exec.Command("sh", "-c", "cd "+dir+"; "+script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("HOME", home)
	tree := filepath.Join(dir, "tree")
	code, out, errs := sandbox(t, "-w", tree, "--", "sh", "-c", "echo 2 >f && git commit -qam second && git log -1 --format='%an <%ae> %s'")
	if code != 0 || out != "A Caller <caller@example.test> second\n" {
		t.Errorf("status %d, %q, %q", code, out, errs)
	}
	// What the host's git reads and runs stays out of reach.
	common := filepath.Join(dir, "repo/.git")
	for _, path := range []string{common + "/hooks/pre-commit", common + "/config.worktree", common + "/worktrees/tree/commondir", common + "/worktrees/tree/config.worktree", tree + "/.git"} {
		before, err1 := os.ReadFile(path)
		_, _, _ = sandbox(t, "-w", tree, "--", "sh", "-c", "echo evil >>"+path)
		if after, err2 := os.ReadFile(path); (err1 == nil) != (err2 == nil) || !bytes.Equal(before, after) {
			t.Errorf("%s was %q, %v and is %q, %v", path, before, err1, after, err2)
		}
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	cmd := exec.Command(bin, "sandbox", "--", "sh", "-c", "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.1; done")
	s := env.Begin(t, cmd)
	s.Await(t, "ready")
	env.Check(t, cmd.Process.Signal(unix.SIGTERM))
	s.Await(t, "got")
	_ = s.End()
	env.Equal(t, "status", cmd.ProcessState.ExitCode(), 9)
}

func TestTerminal(t *testing.T) {
	cmd := exec.Command(bin, "sandbox", "--", "sh", "-c", "tty; stty size; while read x; do stty size; [ $x = go ] || exit 5; done")
	term := engine.OnTerminal(t, 31, 97, cmd)
	term.Expect("/dev/pts/0")
	term.Expect("31 97")
	term.Resize(41, 83)
	env.Eventually(t, "the new size inside", func() bool {
		term.Type("go\n")
		return strings.Contains(term.Said(), "41 83")
	})
	term.Type("end\n")
	if code := term.Wait(); code != 5 {
		t.Errorf("status %d, want 5", code)
	}
}

// TestInBackground: a job in the background of a terminal runs to its end, and reads nothing of what is typed for the shell.
func TestInBackground(t *testing.T) {
	for _, form := range []string{"%s sandbox -- %s &", "%s sandbox --no-tty -- %s &", "%s sandbox -- %s | cat &"} {
		t.Run(form, func(t *testing.T) {
			term := engine.OnTerminal(t, 24, 200, exec.Command("bash", "--norc", "-i"))
			term.Type(fmt.Sprintf(form, bin, `sh -c 'cat; echo end""ed; exit 0'`) + "\n")
			term.Expect("ended")
			term.Type("wait %1; echo status $?\n")
			term.Expect("status 0")
			term.Type("exit\n")
			term.Wait()
		})
	}
}

// TestMountedFileSystems: what is mounted below / is there, read-only; what is empty in a sandbox is at no other place, and the first line names it.
func TestMountedFileSystems(t *testing.T) {
	tool, secret, etc := engine.TempDir(t, "/opt", "agentjail-tool-"), engine.TempDir(t, "/opt", "agentjail-secret-"), engine.TempDir(t, "/etc", "agentjail-")
	r := engine.Run(t, "unshare", "--mount", "--propagation", "private", "sh", "-ec", `
		mount -t tmpfs -o mode=755 t "$1"; printf '#!/bin/sh\necho tool\n' >"$1/tool"; chmod 755 "$1/tool"
		mount -t tmpfs -o mode=755 t "$2"; echo mounted >"$2/file"
		chmod 755 "$3"; mount --bind /root "$3"
		"$0" sandbox -- "$1/tool"
		exec "$0" sandbox -- sh -c 'cat "$2/file"; ls "$3"; touch "$1/x" 2>/dev/null || echo read-only' sh "$1" "$2" "$3"`, bin, tool, etc, secret)
	r.Must(t)
	env.Equal(t, "in the jail", r.Stdout, "tool\nmounted\nread-only\n")
	if strings.Count(r.Stderr, "agentjail: not in the jail: "+secret+" (remedy: --volume "+secret+":"+secret+":ro)\n") != 2 || strings.Count(r.Stderr, "\n") != 2 {
		t.Errorf("the first line: %q", r.Stderr)
	}
}

// TestNothingIsLeft: of jails that have ended nothing is left. Others may come and go meanwhile: what is theirs is gone soon, or has processes.
func TestNothingIsLeft(t *testing.T) {
	before := traces(t)
	mark := "nothing-of-" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())
	for range 5 {
		if code, _, errs := sandbox(t, "--", "sh", "-c", "true", mark); code != 0 {
			t.Fatal(errs)
		}
	}
	var left []string
	if !env.Poll(env.Patience, func() bool {
		left = left[:0]
		for trace := range traces(t) {
			if id := sandboxID.FindString(trace); !before[trace] && !lives(t, id) {
				left = append(left, trace)
			}
		}
		return len(left) == 0
	}) {
		t.Errorf("left:\n%s", strings.Join(left, "\n"))
	}
	for _, pid := range env.Processes(func(pid int) bool { return strings.Contains(env.CommandLine(pid), mark) }) {
		t.Errorf("left: process %d, %q", pid, env.Arguments(pid))
	}
}

var sandboxID = regexp.MustCompile("sandbox-[0-9a-f]+")

// traces are what there is of jails that agentjail sandbox made, for any caller.
func traces(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, pattern := range []string{"/run/agentjail/jails/*sandbox-*", "/run/agentjail/sandbox/sandbox-*", "/sys/fs/cgroup/*/agentjail-sandbox-*", "/sys/fs/cgroup/agentjail-sandbox-*"} {
		for _, m := range matches(t, pattern) {
			all[m] = true
		}
	}
	info := env.Read(t, "/proc/self/mountinfo")
	for l := range strings.SplitSeq(string(info), "\n") {
		if sandboxID.MatchString(l) {
			all[l] = true
		}
	}
	return all
}

// lives reports whether a jail has processes.
func lives(t *testing.T, id string) bool {
	t.Helper()
	for _, procs := range append(matches(t, "/sys/fs/cgroup/*/agentjail-"+id+"/cgroup.procs"), "/sys/fs/cgroup/agentjail-"+id+"/cgroup.procs") {
		if text, err := os.ReadFile(procs); err == nil && len(text) > 0 {
			return true
		}
	}
	return false
}

func matches(t *testing.T, pattern string) []string {
	t.Helper()
	m, err := filepath.Glob(pattern)
	env.Check(t, err)
	return m
}

// TestProcessReadsItsOwnTimes: a process reads its own processor times. The C library has no way to report that times(2) is refused: programs would print
// what is on their stacks.
func TestProcessReadsItsOwnTimes(t *testing.T) {
	if out := sh(t, "times"); strings.Count(out, "0m0.") != 4 {
		t.Errorf("times: %q", out)
	}
}
