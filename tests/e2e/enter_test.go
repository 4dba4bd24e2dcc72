package e2e

import (
	"maps"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// The init step inside a jail: agentjail-enter checks, confines, and is gone.

// filters is how many seccomp filters a process has.
func filters(t *testing.T, status string) string {
	t.Helper()
	for line := range strings.Lines(status) {
		if n, ok := strings.CutPrefix(line, "Seccomp_filters:"); ok {
			return strings.TrimSpace(n)
		}
	}
	t.Skip("this kernel does not count a process's filters (Linux 5.9)")
	return ""
}

// TestInitStepLeavesNothing: of the step nothing is left in the process that it became, and its filter is loaded beside the delegate's.
func TestInitStepLeavesNothing(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	id := sleeper(d)
	sh(d, id, "true") // by now the first process is its program
	pid := inspect(d, id, "{{.State.Pid}}")
	env.Equal(t, "the first process's program", env.ProcLink(t, pid, "exe"), "/bin/busybox")
	env.Equal(t, "filters of the first process", filters(t, env.ProcFile(t, pid, "status")), "2")
	env.Equal(t, "filters of an exec", filters(t, sh(d, id, "cat /proc/self/status")), "2")
	env.Equal(t, "filters of docker exec --privileged", filters(t, d.Must("exec", "--privileged", id, "cat", "/proc/self/status")), "2")
	for what, text := range map[string]string{
		"the first process's memory": env.ProcFile(t, pid, "maps"),
		"an exec's memory":           sh(d, id, "cat /proc/self/maps"),
		"an exec's open files":       sh(d, id, "ls -l /proc/self/fd"),
		"an exec's arguments":        sh(d, id, "cat /proc/$$/cmdline"),
		"the environment":            sh(d, id, "env"),
		"the jail's mounts":          sh(d, id, "cat /proc/mounts"),
	} {
		if strings.Contains(text, "enter") || strings.Contains(text, "memfd") {
			t.Errorf("%s shows the init step:\n%s", what, text)
		}
	}
}

// TestInnerSandbox: an agent's own sandbox works inside the jail's: Landlock in each, a filter where the profile lets
// programs load them.
func TestInnerSandbox(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	landlock := map[string]string{"in the directory": "", "elsewhere": "EACCES"}
	for runtime, want := range map[string]map[string]string{
		engine.Name:        {"a filter": "ENOSYS", "a directory": ""},
		"agentjail-server": {"a filter": "", "a directory": "EXDEV"},
	} {
		maps.Copy(want, landlock)
		for _, user := range []string{"0", "1000"} {
			out := d.Must("run", "--rm", "--runtime="+runtime, "-u", user, engine.Busybox, "probe", "sandbox")
			got := env.Decode[map[string]outcome](d, out)
			for what, w := range want {
				if got[what].Errno != w {
					t.Errorf("%s, user %s: %s: %q, want %q", runtime, user, what, got[what].Errno, w)
				}
			}
		}
	}
}

// TestProcessorsCounted: what counts processors sees what the limit gives.
func TestProcessorsCounted(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	env.Equal(t, "nproc", mustRunJail(d, "--cpus", "1", engine.Busybox, "nproc"), "1")
	env.Equal(t, "nproc with half a processor", mustRunJail(d, "--cpus", "0.5", engine.Busybox, "nproc"), "1")
	id := sleeper(d, "--cpus", "1")
	env.Equal(t, "nproc of an exec", sh(d, id, "nproc"), "1")
}

// TestSmallLimits: limits that no Go program could start under are no hindrance to other programs.
func TestSmallLimits(t *testing.T) {
	d := d(t)
	env.Equal(t, "limits", mustRunJail(d, "--ulimit", "nofile=12:14", "--ulimit", "data=40000000", "--ulimit", "nproc=20:30", engine.Busybox,
		"sh", "-c", "ulimit -n; ulimit -Hn; ulimit -d; ulimit -u"), "12\n14\n39062\n20")
}

// TestDenyWriteExecute: policy can refuse memory that was writable and becomes executable.
func TestDenyWriteExecute(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	got := env.Decode[map[string]outcome](d, d.Must("run", "--rm", "--runtime=agentjail-small", engine.Busybox, "probe", "executable-memory"))
	if got["mprotect"].Errno != "EACCES" || got["mmap"].Errno != "EACCES" {
		t.Errorf("%+v", got)
	}
	if got := probe[map[string]outcome](d, nil, "executable-memory"); got["mprotect"].Errno != "" || got["mmap"].Errno != "" {
		t.Errorf("by default: %+v", got)
	}
}

// TestLandlockHoldsAlone: the domain holds by itself. What is tried here, mounts and file modes allow.
func TestLandlockHoldsAlone(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const own = "echo 500 > /proc/self/oom_score_adj"
	env.Equal(t, "on a read-only root", mustRunJail(d, "--read-only", "--tmpfs", "/tmp", engine.Busybox, "sh", "-c", "touch /tmp/x /dev/shm/x && echo written; echo x > /dev/null && echo null; "+own+" || echo refused"), "written\nnull\nrefused")

	// The PID namespace is the jail's own and bounds signals: the first process reaches what an exec started, and an exec reaches it.
	id := startJail(d, engine.Busybox, "sh", "-c", `trap "exit 9" TERM; while ! [ -e /tmp/go ]; do sleep 0.05; done; kill -9 $(cat /tmp/go) && touch /tmp/killed || touch /tmp/refused; while :; do sleep 0.05; done`)
	d.Must("exec", "-d", id, "sh", "-c", "echo $$ > /tmp/pid; mv /tmp/pid /tmp/go; exec sleep 3600")
	env.Eventually(d, "the signal", func() bool { return sh(d, id, "ls /tmp/killed /tmp/refused 2>/dev/null; true") != "" })
	env.Equal(t, "a signal to an exec", sh(d, id, "ls /tmp/killed /tmp/refused 2>/dev/null; true"), "/tmp/killed")
	shEnds(d, id, "kill -TERM 1")
	env.Equal(t, "a signal from an exec", d.Must("wait", id), "9")
}
