package rootless

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit/keeper"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// running starts a sandbox that waits, and returns its command and its id.
func (u user) running(t testing.TB, args ...string) (*exec.Cmd, string) {
	t.Helper()
	before := u.jails()
	cmd := u.command(bin, append(append([]string{"sandbox"}, args...), "--", "sh", "-c", "echo ready; exec sleep 1000")...)
	env.Begin(t, cmd).Await(t, "ready")
	for _, id := range u.jails() {
		if !slices.Contains(before, id) {
			return cmd, id
		}
	}
	t.Fatal("a running sandbox has no record")
	return nil, ""
}

// jails are the ids of the user's jails.
func (u user) jails() []string { return engine.JailIDs(u.runtimeDir() + "/agentjail") }

// processes are those with an id of the user's.
func (u user) processes() (out []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		var st unix.Stat_t
		if unix.Stat(d, &st) != nil {
			continue
		}
		if id := int(st.Uid); id == u.uid || u.sub > 0 && id >= u.sub && id < u.sub+65536 {
			args, _ := os.ReadFile(d + "/cmdline")
			out = append(out, d+": "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return out
}

// endAll kills the user's processes.
func (u user) endAll() {
	for _, p := range u.processes() {
		dir, _, _ := strings.Cut(p, ": ")
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// nothingLeft waits until the user has neither jails nor processes.
func (u user) nothingLeft(t testing.TB) {
	t.Helper()
	var left []string
	if !env.Poll(env.Patience, func() bool { left = append(u.jails(), u.processes()...); return len(left) == 0 }) {
		t.Fatalf("left of %s's:\n%s", u.name, strings.Join(left, "\n"))
	}
}

// TestVerbsActOnOwnJails: the user's own calls find the user's jails, and act on them.
func TestVerbsActOnOwnJails(t *testing.T) {
	needs(t)
	for _, u := range []user{low, higher} {
		cmd, id := u.running(t, "--workspace", u.workspace(t))
		for _, c := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"ls", "--running"}, 0, id},
			{[]string{"exec", id, "sh", "-c", "id -u; grep CapEff /proc/self/status"}, 0, fmt.Sprintf("%d\nCapEff:\t0000000000000000\n", u.uid)},
			{[]string{"list"}, 0, "running"},
			{[]string{"state", id}, 0, `"status": "running"`},
			{[]string{"inspect", id}, 0, "0 BROKEN"},
			{[]string{"why", id, "mount"}, 1, "mount: refused"},
			{[]string{"denied", id}, 0, "no refusal was seen"},
			{[]string{"receipt", id}, 0, "sleep 1000"},
			{[]string{"gc"}, 0, ""},
			{[]string{"ps", id}, 1, ""},
			{[]string{"pause", id}, 1, ""},
			{[]string{"update", "--memory", "1g", id}, 1, ""},
			{[]string{"kill", id, "TERM"}, 0, ""},
		} {
			r := u.agentjail(t, c.args...)
			if c.code == 1 && c.want == "" && (strings.Count(r.Stderr, "\n") != 1 || !strings.Contains(r.Stderr, "a sandbox without root has no control groups (remedy: ")) {
				t.Errorf("%s", r)
			}
			if c.want == "0 BROKEN" {
				if strings.Contains(r.Stdout, "BROKEN") || !regexp.MustCompile(`[0-9]+ protections hold`).MatchString(r.Stdout) {
					t.Errorf("%s", r)
				}
				continue
			}
			if r.Code != c.code || !strings.Contains(r.Stdout, c.want) {
				t.Errorf("want %q: %s", c.want, r)
			}
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 128+15 {
			t.Errorf("status after kill: %d", code)
		}
		u.nothingLeft(t)
		if r := u.agentjail(t, "receipt", id); r.Code != 0 || !strings.Contains(r.Stdout, "143") {
			t.Errorf("of a jail that ended: %s", r)
		}
	}
}

// TestUsersApart: users neither see nor reach each other's jails, and root's not at all.
func TestUsersApart(t *testing.T) {
	needs(t)
	_, mine := low.running(t)
	_, theirs := other.running(t)
	if r := low.agentjail(t, "ls"); strings.Contains(r.Stdout, theirs) || !strings.Contains(r.Stdout, mine) {
		t.Errorf("%s", r)
	}
	for _, args := range [][]string{{"kill", theirs, "KILL"}, {"exec", theirs, "true"}, {"inspect", theirs}, {"receipt", theirs}} {
		if r := low.agentjail(t, args...); r.Code == 0 {
			t.Errorf("another user's jail: %s", r)
		}
	}
	cmd := low.command(bin, "exec", theirs, "true")
	cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+other.runtimeDir())
	if r := engine.RunPrepared(t, cmd); r.Code == 0 {
		t.Errorf("by another user's directory: %s", r)
	}
	if !slices.Contains(other.jails(), theirs) {
		t.Error("another user's jail was ended")
	}
}

// TestNothingLeftAfterKill kills sandbox, its keeper or both at some moment. Nothing is left: by itself where the keeper lives, else after gc.
func TestNothingLeftAfterKill(t *testing.T) {
	needs(t)
	work := low.workspace(t)
	for i := range 24 {
		args := []string{"sandbox"}
		if i%2 == 0 {
			args = append(args, "--workspace", work)
		}
		cmd := low.command(bin, append(args, "--", "sh", "-c", "while :; do sleep 1; done")...)
		env.Check(t, cmd.Start())
		env.AnyMoment(400 * time.Millisecond)
		pid := cmd.Process.Pid
		if i%3 == 2 {
			_ = unix.Kill(pid, unix.SIGSTOP)
			for _, k := range env.ChildrenNamed(pid, 0, keeper.Name) {
				_ = unix.Kill(k, unix.SIGKILL)
			}
		}
		_ = unix.Kill(pid, unix.SIGKILL)
		_ = cmd.Wait()
		if i%3 == 2 {
			if r := low.agentjail(t, "gc"); r.Code != 0 {
				t.Fatalf("kill %d: %s", i, r)
			}
		}
		t.Logf("kill %d, of its keeper too: %v", i, i%3 == 2)
		low.nothingLeft(t)
		if left, _ := os.ReadDir(work); len(left) > 0 {
			t.Fatalf("kill %d: the workspace has %v", i, left)
		}
	}
}

// TestKilledWaiting kills sandbox, its keeper and by that the delegate when the delegate's first process waits and no record has it yet: gc
// ends that process, and no other.
func TestKilledWaiting(t *testing.T) {
	needs(t)
	waiting := func() string { // the process that will wait
		for _, p := range low.processes() {
			dir, _, _ := strings.Cut(p, ": ")
			files, _ := filepath.Glob(dir + "/fd/*")
			for _, f := range files {
				if to, _ := os.Readlink(f); strings.HasSuffix(to, "/exec.fifo") {
					return dir
				}
			}
		}
		return ""
	}
	for range 6 {
		cmd := low.command(bin, "sandbox", "--", "sleep", "1000")
		env.Check(t, cmd.Start())
		var dir string
		for dir == "" && unix.Kill(cmd.Process.Pid, 0) == nil {
			dir = waiting()
		}
		_ = unix.Kill(cmd.Process.Pid, unix.SIGSTOP)
		for _, k := range env.ChildrenNamed(cmd.Process.Pid, 0, keeper.Name) {
			_ = unix.Kill(k, unix.SIGKILL)
		}
		for range 100_000 {
			at, err := os.ReadFile(dir + "/stack")
			if err != nil || strings.Contains(string(at), "fifo_open") {
				break
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		other, id := low.running(t)
		if r := low.agentjail(t, "gc"); r.Code != 0 {
			t.Fatal(r)
		}
		if r := low.agentjail(t, "kill", id, "TERM"); r.Code != 0 {
			t.Fatal(r)
		}
		_ = other.Wait()
		low.nothingLeft(t)
	}
}

// TestWithoutRuntimeDir: state is in a directory of /tmp, which no other user may have made.
func TestWithoutRuntimeDir(t *testing.T) {
	needs(t)
	u := other
	dir := fmt.Sprintf("/tmp/agentjail-%d", u.uid)
	t.Cleanup(func() { os.RemoveAll(dir) })
	env.Check(t, os.Rename(u.runtimeDir(), u.runtimeDir()+".away"))
	t.Cleanup(func() { _ = os.Rename(u.runtimeDir()+".away", u.runtimeDir()) })
	call := func() (int, string) {
		cmd := u.command(bin, "sandbox", "--", "true")
		cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "XDG_RUNTIME_DIR=") })
		r := engine.RunPrepared(t, cmd)
		return r.Code, r.Stderr
	}
	if code, errs := call(); code != 0 {
		t.Fatalf("status %d: %s", code, errs)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil || st.Mode&0o7777 != 0o700 || int(st.Uid) != u.uid {
		t.Errorf("%s: mode %o, owner %d, %v", dir, st.Mode&0o7777, st.Uid, err)
	}
	env.Check(t, os.Chown(dir, low.uid, low.uid))
	if code, errs := call(); code != 125 || !strings.Contains(errs, "not to you") {
		t.Errorf("another user's directory: status %d: %s", code, errs)
	}
}
