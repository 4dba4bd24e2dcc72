package rootless

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestUsersWorkAsThemselves: users of any id run commands, work in directories of their own as themselves, and have the machine's root nowhere.
func TestUsersWorkAsThemselves(t *testing.T) {
	needs(t)
	for _, u := range []user{low, high, higher} {
		t.Run(u.name, func(t *testing.T) {
			r := u.agentjail(t, "sandbox", "--", "sh", "-c", "id -u; id -g; cat /proc/self/uid_map; exit 7")
			if r.Code != 7 {
				t.Fatal(r)
			}
			if want := fmt.Sprintf("%d\n%d\n", u.uid, u.uid); !strings.HasPrefix(r.Stdout, want) {
				t.Errorf("ids: %q", r.Stdout)
			}
			if n := strings.Count(strings.TrimSpace(r.Stderr), "\n"); n != 0 || !strings.Contains(r.Stderr, "without root: ") {
				t.Errorf("the opening line: %q", r.Stderr)
			}
			work := u.workspace(t)
			out := u.sandbox(t, "--workspace", work, "--", "sh", "-c", "id -u; pwd; echo x >made && cat made; grep ^Cap /proc/self/status | sort -u -k2; grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; id -G")
			want := fmt.Sprintf("%d\n%s\nx\nCapInh:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n%d\n", u.uid, work, u.uid)
			if out != want {
				t.Errorf("in a workspace: %q, want %q", out, want)
			}
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(work, "made"), &st); err != nil || int(st.Uid) != u.uid || int(st.Gid) != u.uid {
				t.Errorf("made: %d:%d, %v", st.Uid, st.Gid, err)
			}
		})
	}
}

// TestGitMark: a file ".git" that leads git nowhere can be written to, and stays the user's as it was.
func TestGitMark(t *testing.T) {
	needs(t)
	work := low.workspace(t)
	at := filepath.Join(work, ".git")
	env.Check(t, errors.Join(os.WriteFile(at, nil, 0o644), os.Chown(at, low.uid, low.uid)))
	if out := low.sandbox(t, "--workspace", work, "--", "sh", "-ec", "echo gitdir: x >.git; cat .git; ! rm -f .git 2>/dev/null"); out != "gitdir: x\n" {
		t.Errorf("the jail reads %q", out)
	}
	if text := env.Read(t, at); len(text) != 0 {
		t.Errorf("the user has %q", text)
	}
}

// TestEmptyDirectories: the directories that are empty in a sandbox can be written as on any machine, whatever the machine's own are.
func TestEmptyDirectories(t *testing.T) {
	needs(t)
	out := low.sandbox(t, "--", "sh", "-c", "mktemp; mktemp -p /var/tmp; mktemp -p /dev/shm; mktemp -d; stat -c '%a %n' /tmp /var/tmp /dev/shm /run /home /root /mnt /media /boot")
	for _, want := range []string{"1777 /tmp", "1777 /var/tmp", "1777 /dev/shm", "755 /run", "755 /home", "700 /root", "755 /mnt", "755 /media", "755 /boot"} {
		if !strings.Contains(out, "\n"+want+"\n") {
			t.Errorf("no %s:\n%s", want, out)
		}
	}
}

// TestOwnName: a sandbox finds its own name, in each network mode.
func TestOwnName(t *testing.T) {
	needs(t)
	for _, with := range [][]string{nil, {"--allow", "example.org"}} {
		out := low.sandbox(t, append(with, "--", "python3", "-c", "import socket; print(socket.gethostbyname(socket.gethostname()))")...)
		env.Equal(t, strings.Join(with, " "), out, "127.0.0.1\n")
	}
}

// TestStandardFilesStayTheUsers: files that a user redirects a sandbox's input and output to keep owner and mode.
func TestStandardFilesStayTheUsers(t *testing.T) {
	needs(t)
	for _, u := range []user{low, high} {
		dir := u.workspace(t)
		for _, args := range [][]string{{"sandbox"}, {"sandbox", "--workspace", dir}} {
			cmd := u.command(bin, append(args, "--", "sh", "-c", "cat; echo out; echo err >&2")...)
			files := map[string]*os.File{}
			for _, name := range []string{"in", "out", "err"} {
				f := env.Get(t, func() (*os.File, error) {
					return os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
				})
				defer f.Close()
				env.Check(t, f.Chown(u.uid, u.uid))
				files[name] = f
			}
			cmd.Stdin, cmd.Stdout, cmd.Stderr = files["in"], files["out"], files["err"]
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v: %v: %s", args, err, env.Read(t, filepath.Join(dir, "err")))
			}
			for name, f := range files {
				var st unix.Stat_t
				env.Check(t, unix.Fstat(int(f.Fd()), &st))
				if int(st.Uid) != u.uid || int(st.Gid) != u.uid || st.Mode&0o777 != 0o600 {
					t.Errorf("%v: %s belongs to %d:%d, with mode %o", args, name, st.Uid, st.Gid, st.Mode&0o777)
				}
			}
			if out := string(env.Read(t, filepath.Join(dir, "out"))); out != "out\n" {
				t.Errorf("%v: output %q", args, out)
			}
		}
	}
}

// TestJailRootIsNeverTheUser: the jail's root is never the user. Without a directory of the user's neither is its program, which then cannot read the
// user's files elsewhere.
func TestJailRootIsNeverTheUser(t *testing.T) {
	needs(t)
	for _, u := range []user{low, high} {
		kept := filepath.Join("/opt", u.name)
		env.Check(t, errors.Join(os.MkdirAll("/opt", 0o755), os.WriteFile(kept, []byte("the user's own"), 0o600), os.Chown(kept, u.uid, u.uid)))
		t.Cleanup(func() { os.Remove(kept) })
		for _, with := range [][]string{nil, {"--workspace", u.workspace(t)}} {
			// The parents' ids: 0 is the user, and 1 the first subordinate one.
			mine := 0
			for line := range strings.Lines(u.sandbox(t, append(with, "--", "cat", "/proc/self/uid_map")...)) {
				var in, out, n int
				if k, err := fmt.Sscan(line, &in, &out, &n); k != 3 {
					t.Fatalf("%q: %v", line, err)
				}
				if in == 0 && out != 1 {
					t.Errorf("%s, %v: the jail's root is %d outside", u.name, with, out)
				}
				if in <= u.uid && u.uid < in+n && out+(u.uid-in) == 0 {
					mine++
				}
			}
			if (mine == 1) != (with != nil) {
				t.Errorf("%s, %v: the program's user is the user: %d", u.name, with, mine)
			}
			if r := u.agentjail(t, append(append([]string{"sandbox"}, with...), "--", "cat", kept)...); (r.Code == 0) != (with != nil) {
				t.Errorf("%s, %v: a file of the user's: %s", u.name, with, r)
			}
		}
	}
}

// TestHostStaysOut: what root's sandboxes cannot reach, these cannot either.
func TestHostStaysOut(t *testing.T) {
	needs(t)
	work := low.workspace(t)
	secret := filepath.Join(low.home(), "secret")
	env.Check(t, os.WriteFile(secret, []byte("x"), 0o644))
	for _, try := range []string{
		"cat " + secret, "cat /etc/shadow", "touch /etc/x", "touch /usr/x", "touch /x", "touch /sys/x", "mount -t tmpfs x /mnt", "unshare -U true",
		"kill -9 " + fmt.Sprint(os.Getpid()), "echo x >/proc/sys/vm/swappiness", "ls -A " + low.runtimeDir() + " | grep .", "ls /home | grep -v " + low.name,
		"tail -n +3 /proc/net/dev | grep -v ' lo:'",
	} {
		if r := low.agentjail(t, "sandbox", "--workspace", work, "--", "sh", "-c", try); r.Code == 0 || r.Code == 125 {
			t.Errorf("%s: %s", try, r)
		}
	}
}

// TestRefusals: what cannot be had without root ends the call, with the remedy.
func TestRefusals(t *testing.T) {
	needs(t)
	work := low.workspace(t)
	for _, c := range []struct {
		u    user
		args []string
		want string
	}{
		{bare, []string{"--", "true"}, "usermod --add-subuids"},
		{low, []string{"--workspace", "/etc", "--", "true"}, "belongs to another user"},
		{low, []string{"--review", "--workspace", work, "--", "true"}, "only root can mount"},
		{low, []string{"--tighten", "limits.memory=64m", "--", "true"}, "without root no control group holds it"},
	} {
		t.Cleanup(bare.endAll) // Podman's, by which check looks where the user has no subordinate ids
		if r := c.u.agentjail(t, "check"); c.u == bare && !strings.Contains(r.Stderr, c.want) || c.u == low && (r.Code != 0 || strings.Contains(r.Stdout+r.Stderr, "has no privilege")) {
			t.Errorf("%s", r)
		}
		if r := c.u.agentjail(t, append([]string{"sandbox"}, c.args...)...); r.Code != 125 || !strings.Contains(r.Stderr, c.want) || r.Stdout != "" {
			t.Errorf("%s", r)
		}
	}
}

// TestProtectedPaths: what programs of the user's run from a workspace cannot be written, and what is not there cannot be made.
func TestProtectedPaths(t *testing.T) {
	needs(t)
	work := low.workspace(t)
	for _, dir := range []string{".git", ".git/hooks", ".git/objects", ".git/refs"} {
		own(t, low, filepath.Join(work, dir), "")
	}
	own(t, low, filepath.Join(work, ".git/HEAD"), "ref: refs/heads/main\n")
	own(t, low, filepath.Join(work, ".git/config"), "[core]\n")
	r := low.agentjail(t, "sandbox", "--workspace", work, "--", "sh", "-c", `
		echo x >.git/hooks/pre-commit && echo made hook
		echo x >>.git/config
		mkdir -p .vscode; echo x >.vscode/tasks.json && echo made tasks
		mv .git g && echo moved
		echo ok >file`)
	if r.Code != 0 || r.Stdout != "" {
		t.Errorf("%s", r)
	}
	if text, err := os.ReadFile(filepath.Join(work, ".git/config")); err != nil || string(text) != "[core]\n" {
		t.Errorf("git's settings on the host: %q, %v", text, err)
	}
	for path, want := range map[string]bool{"file": true, ".git/hooks/pre-commit": false, ".vscode": false, ".git": true} {
		if _, err := os.Lstat(filepath.Join(work, path)); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestSettingsOutside: what the user's own settings, and those of the repository around a workspace or elsewhere, name in it cannot be made.
func TestSettingsOutside(t *testing.T) {
	needs(t)
	top, err := os.MkdirTemp("/var/tmp", "agentjail-rootless-ws-") // outside the home
	env.Check(t, errors.Join(err, os.Chown(top, low.uid, low.uid)))
	t.Cleanup(func() { os.RemoveAll(top) })
	for _, dir := range []string{"r", "r/.git", "r/.git/objects", "r/.git/refs", "r/pkg", "w", "g", "g/objects", "g/refs"} {
		own(t, low, filepath.Join(top, dir), "")
	}
	for path, text := range map[string]string{
		"r/.git/HEAD": "ref: refs/heads/main\n", "r/.git/config": "[core]\n\tfsmonitor = ./pkg/of-around\n", "w/.git": "gitdir: ../g\n",
		"g/HEAD": "ref: refs/heads/main\n", "g/config": "[diff]\n\texternal = ./of-elsewhere\n",
	} {
		own(t, low, filepath.Join(top, path), text)
	}
	settings := filepath.Join(low.home(), ".gitconfig")
	own(t, low, settings, "[core]\n\thooksPath = "+top+"/r/pkg/of-user\n[alias]\n\tx = !./of-user\n")
	t.Cleanup(func() { os.Remove(settings) })
	const jail = "for f in of-around of-elsewhere of-user free; do echo x >$f && echo $f; done 2>/dev/null; true"
	for mount, want := range map[string]string{"r/pkg": "of-elsewhere\nfree\n", "w": "of-around\nfree\n"} {
		if out := low.sandbox(t, "--workspace", filepath.Join(top, mount), "--", "sh", "-c", jail); out != want {
			t.Errorf("%s: made are %q, want %q", mount, out, want)
		}
	}
}

// own makes a directory, or with a text a file, of a user's.
func own(t testing.TB, u user, path, text string) {
	t.Helper()
	make := func() error { return os.Mkdir(path, 0o755) }
	if text != "" {
		make = func() error { return os.WriteFile(path, []byte(text), 0o644) }
	}
	env.Check(t, errors.Join(make(), os.Chown(path, u.uid, u.uid)))
}

// TestNetworkByName: a network by name has a resolver of its own, a port can be published, and nothing else leads out.
func TestNetworkByName(t *testing.T) {
	needs(t)
	out := low.sandbox(t, "--allow", "example.org", "--", "sh", "-c", "getent ahostsv4 example.org | head -n 1; getent ahostsv4 example.com; true")
	if !strings.HasPrefix(out, "127.64.") || strings.Count(out, "\n") != 1 {
		t.Errorf("an address of the pool for the one name: %q", out)
	}
}

// TestAdministratorsPolicyBinds: an administrator's policy binds users, and none of theirs counts.
func TestAdministratorsPolicyBinds(t *testing.T) {
	needs(t)
	for _, c := range []struct {
		owner int
		want  string
	}{{0, "on_loosen"}, {low.uid, "not to root"}} {
		path := filepath.Join("/etc", fmt.Sprintf("agentjail-test-%d.toml", c.owner))
		t.Cleanup(func() { os.Remove(path) })
		env.Check(t, errors.Join(os.WriteFile(path, []byte("on_loosen = \"maybe\"\n"), 0o644), os.Chown(path, c.owner, c.owner)))
		if r := low.agentjail(t, "sandbox", "--config", path, "--", "true"); r.Code != 125 || !strings.Contains(r.Stderr, c.want) {
			t.Errorf("of user %d: %s", c.owner, r)
		}
	}
}

// TestForcedReview: what an administrator has reviewed is written by no user's jail, by any name; an agent's own directory keeps its settings.
func TestForcedReview(t *testing.T) {
	needs(t)
	work := low.workspace(t)
	for _, dir := range []string{"ws", "ws/src", ".claude", ".claude/projects"} {
		own(t, low, filepath.Join(work, dir), "")
	}
	path := "/etc/agentjail-test-review.toml"
	t.Cleanup(func() { os.Remove(path) })
	env.Check(t, os.WriteFile(path, fmt.Appendf(nil, "workspace.review = [%q]\n", work+"/ws/*/**"), 0o644))
	for _, dir := range []string{"ws", "ws/src"} {
		r := low.agentjail(t, "sandbox", "--config", path, "-v", filepath.Join(work, dir)+":/x", "--", "touch", "/x/new", "/x/src/new")
		if r.Code != 125 || !strings.Contains(r.Stderr, "workspace.review = ") || !strings.Contains(r.Stderr, "remedy") {
			t.Errorf("%s", r)
		}
	}
	r := low.agentjail(t, "sandbox", "--config", path, "-v", work+"/.claude:/c", "--", "sh", "-c", `
		echo x >/c/projects/new; ( mkdir -p /c/hooks; echo x >/c/hooks/a ) 2>/dev/null && echo wrote a hook
		( echo x >/c/settings.json ) 2>/dev/null && echo wrote settings; true`)
	if r.Code != 0 || r.Stdout != "" {
		t.Errorf("%s", r)
	}
	for name, want := range map[string]bool{"projects/new": true, "hooks/a": false, "settings.json": false} {
		if _, err := os.Lstat(filepath.Join(work, ".claude", name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAgent: an agent works with an empty home. What it cannot have without root is refused, or named before it starts.
func TestAgent(t *testing.T) {
	needs(t)
	work, dir := high.workspace(t), filepath.Join(high.home(), "bin")
	own(t, high, dir, "")
	own(t, high, filepath.Join(dir, "claude"), "#!/bin/sh\n[ \"$1\" = --version ] && { echo '9.9.9 (Claude Code)'; exit; }\nid -u; echo x >made\n")
	t.Cleanup(func() { os.RemoveAll(dir) })
	env.Check(t, os.Chmod(filepath.Join(dir, "claude"), 0o755))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--direct"}, 125, "--home empty"},
		{[]string{"--direct", "--home", "empty", "--key", "/etc/hostname"}, 125, "--key without root"},
		{[]string{"--home", "empty"}, 125, "there is no review without root (remedy: sudo agentjail sandbox ...); or --direct"},
		{[]string{"--home", "empty", "--direct"}, 0, "written at once: --direct"},
	} {
		cmd := high.command(bin, append([]string{"sandbox", "--agent", "claude", "--workspace", work}, c.args...)...)
		cmd.Env = append(cmd.Env, "PATH="+dir+":/usr/bin:/bin:/usr/sbin")
		r := engine.RunPrepared(t, cmd)
		if r.Code != c.code || !strings.Contains(r.Stderr, c.want) || c.code == 0 && r.Stdout != fmt.Sprintf("%d\n", high.uid) {
			t.Errorf("%s", r)
		}
	}
	if _, err := os.Stat(filepath.Join(work, "made")); err != nil {
		t.Error(err)
	}
}

// TestDeviceSources: a user hides a file by the null device, and mounts the other devices that every jail has.
func TestDeviceSources(t *testing.T) {
	needs(t)
	for _, u := range []user{low, high} {
		work := u.workspace(t)
		at := filepath.Join(work, ".env")
		env.Put(t, at, "KEY=1\n", 0o644, u.uid)
		out := u.sandbox(t, "--workspace", work, "--volume", "/dev/null:"+at, "--volume", "/dev/zero:/etc/hostname:ro", "--", "sh", "-c",
			"test -c .env && cat .env && echo x >.env && head -c 3 /etc/hostname | wc -c")
		env.Equal(t, "output", strings.TrimSpace(out), "3")
		env.Equal(t, "the host's file", string(env.Read(t, at)), "KEY=1\n")
	}
}
