package ends

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/jailinit/keeper"
	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// killsEnv is the number of kills of TestKilledAtRandom, where it is not to be the usual one.
const killsEnv = "AGENTJAIL_TEST_KILLS"

// TestKilledAtRandom kills sandbox, its process group, its keeper, and all of them, each at some moment: when the
// jail is made, runs, or is removed. The jail ends, and nothing of it is left: by itself where the keeper is there,
// else after the next create or gc.
func TestKilledAtRandom(t *testing.T) {
	n := 60
	if v, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		n = v
	}
	dir := engine.Workspace(t, engine.Repository())
	before := env.Tree(dir)
	for i := range n {
		args := []string{"--workspace", dir, "--", "sh", "-c", "[ $(($$ % 2)) = 0 ] || exec sleep 0.05; while :; do sleep 1; done"}
		if i%2 == 1 {
			args = append([]string{"--no-init"}, args...)
		}
		r, ids := startSandbox(t, args...), map[string]bool{}
		env.AnyMoment(300 * time.Millisecond)
		for _, id := range engine.JailIDs(state.DefaultRoot) {
			ids[id] = true
		}
		keeperToo := kill(r, i/2%4)
		t.Logf("kill %d, in way %d, of its keeper too: %v", i, i/2%4, keeperToo)
		_ = r.cmd.Wait()
		if keeperToo {
			reclaim(t, i)
		}
		r.status()
		nothingLeft(t, ids)
		if after := env.Tree(dir); after != before {
			t.Fatalf("after kill %d the workspace has\n%s", i, after)
		}
	}
}

// kill kills in one of four ways, and reports whether the keeper was among the killed.
func kill(r *run, way int) (keeperToo bool) {
	pid := r.cmd.Process.Pid
	switch way {
	case 0:
		_ = unix.Kill(pid, unix.SIGKILL)
	case 1:
		_ = unix.Kill(-pid, unix.SIGKILL)
	case 2: // another keeper takes its place
		first := keeperOf(pid)
		if first != 0 {
			_ = unix.Kill(first, unix.SIGKILL)
		}
		env.AnyMoment(3 * time.Millisecond)
		second := keeperOf(pid)
		_ = unix.Kill(pid, unix.SIGKILL)
		return second == 0 || second == first
	default:
		_ = unix.Kill(pid, unix.SIGSTOP) // so that none takes its place
		if k := keeperOf(pid); k != 0 {
			_ = unix.Kill(k, unix.SIGKILL)
		}
		_ = unix.Kill(pid, unix.SIGKILL)
		return true
	}
	return false
}

// keeperOf is the process that waits for the end of a sandbox, or 0.
func keeperOf(pid int) int {
	for _, k := range env.ChildrenNamed(pid, 0, keeper.Name) {
		return k
	}
	return 0
}

// reclaim has another call reclaim what was left.
func reclaim(t *testing.T, i int) {
	t.Helper()
	args := []string{"gc"}
	if i%8 >= 4 {
		args = []string{"sandbox", "--", "true"}
	}
	if out, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// TestSignalledAtStart: INT, TERM and HUP end a sandbox that is only being made.
func TestSignalledAtStart(t *testing.T) {
	dir := engine.Workspace(t, engine.Repository())
	before := env.Tree(dir)
	for i := range 18 {
		sig := []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP}[i%3]
		r := startSandbox(t, "--workspace", dir, "--", "sleep", "1000")
		env.AnyMoment(180 * time.Millisecond)
		_ = r.cmd.Process.Signal(sig)
		if code := r.status(); code != 128+int(sig) {
			t.Errorf("after %v: status %d, want %d\n%s", sig, code, 128+int(sig), r.said.String())
		}
		nothingLeft(t, map[string]bool{})
		if after := env.Tree(dir); after != before {
			t.Fatalf("the workspace has\n%s", after)
		}
	}
}

// endless are commands that do nothing about signals.
func endless(t *testing.T) [][]string {
	out := [][]string{
		{"sh", "-c", "echo ready; exec sleep 1000"},
		{"sh", "-c", "echo ready; exec tail -f /dev/null"},
		{"sh", "-c", "sh -c 'echo ready; exec sleep 1000'; echo after"},
	}
	if _, err := exec.LookPath("node"); err == nil {
		return append(out, []string{"node", "-e", "console.log('ready'); setTimeout(() => {}, 1e9)"})
	}
	t.Log("without node")
	return out
}

// TestUnhandledSignalEnds: what does nothing about a signal is ended by it, though it is a jail's program.
func TestUnhandledSignalEnds(t *testing.T) {
	for i, args := range endless(t) {
		signals := []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR2}
		if i == 0 {
			signals = slices.DeleteFunc(jailinit.PassedOn(), func(s unix.Signal) bool {
				return slices.Contains([]unix.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT, unix.SIGWINCH}, s)
			})
		}
		for _, sig := range signals {
			r := startSandbox(t, append([]string{"--"}, args...)...)
			r.ready()
			_ = r.cmd.Process.Signal(sig)
			if code := within(r); code != 128+int(sig) {
				t.Errorf("%v, %v: status %d, want %d", args, sig, code, 128+int(sig))
			}
			if strings.Contains(r.said.String(), "after") {
				t.Errorf("%v, %v: the shell went on", args, sig)
			}
		}
	}
	nothingLeft(t, map[string]bool{})
}

// within is status, of what may be there for ever.
func within(r *run) int {
	timer := time.AfterFunc(env.Patience/3, func() { _ = r.cmd.Process.Kill() })
	defer timer.Stop()
	return r.status()
}

// TestTerminalKeys: the keys that end programs end these too, and so does the end of the terminal.
func TestTerminalKeys(t *testing.T) {
	terminalKeys(t, endless(t), "sandbox")
}

// TestTerminalKeysStrict: so do they where the jail's filter refuses that the program leads a session.
func TestTerminalKeysStrict(t *testing.T) {
	conf := engine.PolicyFile(t, "seccomp.profile = \"strict\"\n")
	terminalKeys(t, [][]string{
		{"sh", "-c", "echo ready; exec sleep 1000"},
		{"sh", "-c", "[ -t 0 ] && echo x >/dev/tty && echo ready; read line; exec sleep 1000"},
	}, "--config", conf, "sandbox")
}

// TestInitRefused: an init that the jail's filter would not let work is refused, and the command runs without.
func TestInitRefused(t *testing.T) {
	list := engine.PolicyFile(t, `{"extends": "strict", "allow": [{"names": ["kill"], "when": ["arg1 == 0"], "why": "a test"}, {"names": ["wait4"], "when": ["arg0 == 1"], "why": "a test"}]}`)
	conf := engine.PolicyFile(t, fmt.Sprintf("seccomp.only = %q\n", list))
	out, err := exec.Command(bin, "--config", conf, "sandbox", "--", "true").CombinedOutput()
	if want := "filter refuses: kill, wait4 (remedy: agentjail sandbox --no-init; or"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s, want %q", err, out, want)
	}
	if out, err := exec.Command(bin, "--config", conf, "sandbox", "--no-init", "--", "true").CombinedOutput(); err != nil {
		t.Errorf("without an init: %v: %s", err, out)
	}
	nothingLeft(t, map[string]bool{})
}

// terminalKeys presses keys on terminals of these programs.
func terminalKeys(t *testing.T, programs [][]string, sandbox ...string) {
	t.Helper()
	for _, args := range programs {
		for keys, want := range map[string]int{"\x03": 130, "\x1c": 131, "\x1a\x03": 130, "": 129} {
			cmd := exec.Command(bin, slices.Concat(sandbox, []string{"--"}, args)...)
			term := engine.OnTerminal(t, 24, 80, cmd)
			term.Expect("ready")
			timer := time.AfterFunc(env.Patience/3, func() { _ = cmd.Process.Kill() })
			if keys == "" {
				term.HangUp()
			} else {
				term.Type(keys)
			}
			_ = cmd.Wait()
			timer.Stop()
			if code := cmd.ProcessState.ExitCode(); code != want {
				t.Errorf("%v, keys %q: %v, want status %d", args, keys, cmd.ProcessState, want)
			}
		}
	}
	nothingLeft(t, map[string]bool{})
}

// TestDeafToTheTerminal: a program that ignores its signals ends with its terminal.
func TestDeafToTheTerminal(t *testing.T) {
	for _, option := range []string{"--no-tty", "--no-init", "--read-only"} {
		cmd := exec.Command(bin, "sandbox", option, "--", "sh", "-c", "trap '' HUP INT TERM; echo ready; while :; do sleep 1; done")
		term := engine.OnTerminal(t, 24, 80, cmd)
		term.Expect("ready")
		term.HangUp()
		timer := time.AfterFunc(env.Patience/3, func() { _ = cmd.Process.Signal(unix.SIGKILL) })
		_ = cmd.Wait()
		timer.Stop()
		if code := cmd.ProcessState.ExitCode(); code != 137 {
			t.Errorf("%s: %v, want status 137", option, cmd.ProcessState)
		}
	}
	nothingLeft(t, map[string]bool{})
}

// TestInitIsOutOfReach: the first process is out of the jail's reach, waits for what is left to it, and holds nothing of the
// program's.
func TestInitIsOutOfReach(t *testing.T) {
	for what, script := range map[string]string{
		"its environment":   "! cat /proc/1/environ",
		"its files":         "! ls /proc/1/fd",
		"its memory":        "! head -c1 /proc/1/mem",
		"SIGKILL, SIGSTOP":  "kill -KILL 1; kill -STOP 1; while grep -q 'State:.R' /proc/1/status; do :; done; grep -q 'State:.S' /proc/1/status",
		"its privileges":    "grep -q 'CapEff:.0000000000000000' /proc/1/status && grep -q 'NoNewPrivs:.1' /proc/1/status && grep -q 'Seccomp_filters:.2' /proc/1/status",
		"another process":   "[ $$ != 1 ]",
		"its socket":        "! ls -l /proc/self/fd | grep socket",
		"its variables":     "! env | grep -E 'GOGC|GOMAXPROCS'",
		"orphans":           "(sleep 0.01 & sleep 0.01 &); i=0; while grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | grep -q . || [ $i = 0 ]; do i=1; done",
		"all but the first": "sleep 1000 & kill -TERM -1; wait; true",
	} {
		r := startSandbox(t, "--", "sh", "-c", script)
		if code := within(r); code != 0 {
			t.Errorf("%s: status %d\n%s", what, code, r.said.String())
		}
	}
}

// TestExitStatuses: the command's own, 128 and a signal's number, and 125 for what is not the command's.
func TestExitStatuses(t *testing.T) {
	for _, c := range []struct {
		want int
		args []string
	}{
		{0, []string{"--", "true"}},
		{7, []string{"--", "sh", "-c", "exit 7"}},
		{137, []string{"--", "sh", "-c", "kill -9 $$"}},
		{143, []string{"--", "sh", "-c", "kill $$"}},
		{134, []string{"--", "sh", "-c", "kill -ABRT $$"}},
		{125, []string{"--nonsense"}},
		{125, []string{"--tighten", "x"}},
		{125, []string{"--workspace", "/nonexistent", "--", "true"}},
		{125, []string{"--workspace", "/etc/passwd", "--", "true"}},
		{126, []string{"--", "/etc/passwd"}},
		{127, []string{"--", "no-such-command"}},
	} {
		r := startSandbox(t, c.args...)
		if code := r.status(); code != c.want {
			t.Errorf("%v: status %d, want %d\n%s", c.args, code, c.want, r.said.String())
		}
	}
}

// TestCommandServesAtPort80: a sandbox's program serves at port 80 of its own network.
func TestCommandServesAtPort80(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	r := startSandbox(t, "--", "python3", "-c", "import socket; socket.socket().bind(('127.0.0.1', 80))")
	if code := r.status(); code != 0 {
		t.Errorf("status %d\n%s", code, r.said.String())
	}
}

// TestVerbsFindSandboxes: what people call with an id finds a sandbox, whatever the delegate's root.
func TestVerbsFindSandboxes(t *testing.T) {
	for _, option := range []string{"--read-only", "--no-init"} {
		r := startSandbox(t, option, "--", "sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done")
		r.ready()
		id := engine.JailIDs(state.DefaultRoot)[0]
		for _, c := range []struct{ args, want string }{
			{"list", id},
			{"list -q", id},
			{"state " + id, `"running"`},
			{"ps " + id, "trap"},
			{"exec " + id + " echo inside", "inside"},
			{"inspect " + id, "protections hold"},
			{"pause " + id, ""},
			{"state " + id + " ", `"paused"`},
			{"resume " + id, ""},
		} {
			out, err := exec.Command(bin, strings.Fields(c.args)...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%s: %v\n%s", c.args, err, out)
			}
		}
		if out, err := exec.Command(bin, "kill", id, "TERM").CombinedOutput(); err != nil {
			t.Errorf("kill: %v\n%s", err, out)
		}
		if code := within(r); code != 9 {
			t.Errorf("%s: status %d after kill, want 9", option, code)
		}
		r = startSandbox(t, option, "--", "sh", "-c", "echo ready; exec sleep 1000")
		r.ready()
		if out, err := exec.Command(bin, "delete", "--force", engine.JailIDs(state.DefaultRoot)[0]).CombinedOutput(); err != nil {
			t.Errorf("delete --force: %v\n%s", err, out)
		}
		if l := left(map[string]bool{}); len(l) > 0 {
			t.Errorf("delete --force has left %v", l)
		}
		if code := within(r); code != 137 {
			t.Errorf("%s: status %d after delete, want 137", option, code)
		}
	}
	if err := exec.Command(bin, "delete", "--force", "no-such-jail").Run(); err != nil {
		t.Errorf("delete --force of none: %v", err)
	}
	if err := exec.Command(bin, "delete", "no-such-jail").Run(); err == nil {
		t.Error("delete of none worked")
	}
}

// TestTwoPIDNamespaces: calls in two PID namespaces with one state directory leave each other's jails alone.
func TestTwoPIDNamespaces(t *testing.T) {
	const loop = `i=0; while [ $i -lt 40 ]; do i=$((i+1)); "$0" sandbox -- true || echo "failed: $i"; done`
	inside := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", loop, bin)
	outside := exec.Command("sh", "-c", loop, bin)
	done := make(chan string, 2)
	for _, cmd := range []*exec.Cmd{inside, outside} {
		go func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				out = append(out, err.Error()...)
			}
			done <- string(out)
		}()
	}
	for range 2 {
		if said := <-done; said != "" {
			t.Errorf("%s", said)
		}
	}
	nothingLeft(t, map[string]bool{})
}

// TestOtherPIDNamespace: of a jail of another PID namespace nothing is known, so that it is neither dead nor
// answered for.
func TestOtherPIDNamespace(t *testing.T) {
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", bin, "sandbox", "--", "sh", "-c", "echo ready; exec sleep 1000")
	r, w, err := os.Pipe()
	env.Check(t, err)
	defer r.Close()
	cmd.Stdout = w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	env.Check(t, cmd.Start())
	defer func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGTERM)
		_ = cmd.Wait()
		nothingLeft(t, map[string]bool{})
	}()
	w.Close()
	x := &run{t: t, cmd: cmd, out: r}
	x.ready()
	id := engine.JailIDs(state.DefaultRoot)[0]
	for _, args := range [][]string{{"gc"}, {"gc", id}, {"sandbox", "--", "true"}} {
		if out, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	if now := engine.JailIDs(state.DefaultRoot); len(now) != 1 || now[0] != id {
		t.Errorf("jails %v, want %s", now, id)
	}
	for _, verb := range []string{"state", "kill", "delete", "inspect"} {
		out, err := exec.Command(bin, verb, id).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "another PID namespace") {
			t.Errorf("%s: %v, %s", verb, err, out)
		}
	}
}
