package e2e

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// oomOrder is the least OOM score of a jail's processes, 1000 is the most.
const oomOrder = 900

// canLimit reports whether this machine's root has CAP_SYS_RESOURCE, which the kernel requests where a bound is made that
// processes cannot take back by themselves.
func canLimit(t testing.TB) bool {
	t.Helper()
	for line := range strings.Lines(string(env.Read(t, "/proc/self/status"))) {
		if v, ok := strings.CutPrefix(line, "CapEff:\t"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			env.Check(t, err)
			return caps&(1<<unix.CAP_SYS_RESOURCE) != 0
		}
	}
	t.Fatal("/proc/self/status shows no capabilities")
	return false
}

// TestJailIsKilledBeforeTheHost: every process of a jail is killed before the host's own when memory runs out, whatever the engine
// requests; an engine's own wish to have it die earlier stays.
func TestJailIsKilledBeforeTheHost(t *testing.T) {
	needAgentjail(t)
	for _, c := range []struct {
		name    string
		options []string
		want    int
	}{
		{"by default", nil, oomOrder},
		{"spared", []string{"--oom-score-adj", "-500"}, oomOrder},
		{"a little", []string{"--oom-score-adj", "300"}, oomOrder},
		{"first of all", []string{"--oom-score-adj", "1000"}, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := d(t)
			id := sleeper(d, c.options...)
			first := strings.TrimSpace(env.ProcFile(t, inspect(d, id, "{{.State.Pid}}"), "oom_score_adj"))
			env.Equal(t, "the first process", first, fmt.Sprint(c.want))
			exec, err := strconv.Atoi(sh(d, id, "cat /proc/self/oom_score_adj"))
			if err != nil || exec < oomOrder {
				t.Errorf("a further process has %d, %v", exec, err)
			}
		})
	}
}

// TestEveryProcessIsKilledBeforeTheHost: no process of a jail makes itself live longer. Where root has CAP_SYS_RESOURCE, its score is the
// kernel's floor; elsewhere Landlock keeps /proc from being written in a jail with a read-only root.
func TestEveryProcessIsKilledBeforeTheHost(t *testing.T) {
	needAgentjail(t)
	options := []string{"--read-only"}
	if canLimit(t) {
		options = nil
	}
	d := d(t)
	id := sleeper(d, options...)
	for _, user := range []string{"0", "1000"} {
		got := d.Must("exec", "-u", user, id, "sh", "-c", "for n in 899 0 -1000; do echo $n > /proc/self/oom_score_adj; done 2>/dev/null; cat /proc/self/oom_score_adj")
		env.Equal(t, "as user "+user, got, fmt.Sprint(oomOrder))
	}
}

// rlimitRows are of /proc/PID/limits: soft and hard.
func rlimitRows(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if name, rest, ok := strings.Cut(line, "  "); ok {
			if f := strings.Fields(rest); len(f) >= 2 {
				out[name] = f[0] + " " + f[1]
			}
		}
	}
	return out
}

// TestResourceLimits: the kernel has exactly these limits for the first process and for further ones. An engine's wish
// tightens them, except for the one on core files, where any other value has the host's handler run.
func TestResourceLimits(t *testing.T) {
	needAgentjail(t)
	for _, c := range []struct {
		name    string
		options []string
		files   string
	}{
		{"by default", nil, "16384 16384"},
		{"looser", []string{"--ulimit", "nofile=20000:20000", "--ulimit", "core=-1:-1", "--ulimit", "msgqueue=819200:819200"}, "16384 16384"},
		{"tighter", []string{"--ulimit", "nofile=100:200", "--ulimit", "core=0:0", "--ulimit", "msgqueue=0:0"}, "100 200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := d(t)
			id := sleeper(d, c.options...)
			for who, text := range map[string]string{
				"the first process": string(env.Read(t, filepath.Join("/proc", inspect(d, id, "{{.State.Pid}}"), "limits"))),
				"a further process": d.Must("exec", id, "cat", "/proc/self/limits"),
				"another user's":    d.Must("exec", "-u", "1000", id, "cat", "/proc/self/limits"),
			} {
				rows := rlimitRows(t, text)
				env.Equal(t, who+": core files", rows["Max core file size"], "1 1")
				env.Equal(t, who+": message queues", rows["Max msgqueue size"], "0 0")
				if who == "the first process" || c.options == nil {
					env.Equal(t, who+": open files", rows["Max open files"], c.files)
				}
			}
		})
	}
}

// TestEngineWithoutCores: an engine that was started with no core files, which is a hard limit of 0, is warned that the
// host's handler runs for a crash, where nothing prevents that.
func TestEngineWithoutCores(t *testing.T) {
	needAgentjail(t)
	t.Parallel()
	under := env.Get(t, engine.UnderTest)
	b := engine.NewBundle(t, docker.Dir)
	b.Spec.Process.Args = []string{"awk", "/^Max core/ { print $(NF-2), $(NF-1) }", "/proc/self/limits"}
	c := engine.Caller{Path: "/bin/sh", Args: []string{"-c", `ulimit -c 0; exec "$@"`, "sh", under, "--root", filepath.Join(b.Dir, "state")}}
	out, said, err := b.Call(t, c, "run", "--bundle", b.Dir, b.ID())
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	want := "1 1"
	if !canLimit(t) {
		want = "0 0"
		// The log has it once per boot.
		text, said, err := b.Call(t, c, "explain", b.Dir)
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		env.Contain(t, "the report", text, "missing  process.rlimits[RLIMIT_CORE]")
	}
	env.Equal(t, "the limit", strings.TrimSpace(out), want)
}

// TestSocketBuffers: the buffers of a jail's sockets have a limit, on control groups of version 1 one of their own, which
// an update does not take away; and a socket's own buffer stays small.
func TestSocketBuffers(t *testing.T) {
	needAgentjail(t)
	const most = 64 << 20
	for _, c := range []struct{ name, update string }{{"by default", ""}, {"updated", "100m"}} {
		t.Run(c.name, func(t *testing.T) {
			d := d(t)
			id := sleeper(d, "-m", "200m")
			if c.update != "" {
				d.Must("update", "-m", c.update, "--memory-swap", c.update, id)
			}
			// Version 2 counts them as memory.
			if is := cgroupValue(t, d, id, "memory", "memory.kmem.tcp.limit_in_bytes", "memory.max"); is > 200<<20 || is > most && exists("/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes") {
				t.Errorf("socket buffers may have %d bytes", is)
			}
			env.Equal(t, "TCP", sh(d, id, "cat /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/ipv4/tcp_wmem | tr '\\t' ' '"), "4096 16384 1048576\n4096 8192 1048576")
		})
	}
}

// mebibytes are the sizes of file systems in a jail, by their places.
func mebibytes(d *engine.T, id string, places ...string) string {
	return sh(d, id, "df -m "+strings.Join(places, " ")+" | awk 'NR > 1 { print $2 }' | xargs")
}

// TestTmpfsSizes: a tmpfs has the size that is requested, up to the memory limit, and policy's where none is.
func TestTmpfsSizes(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	id := sleeper(d, "--shm-size", "512m", "--tmpfs", "/big:size=1g", "--tmpfs", "/plain")
	env.Equal(t, "sizes", mebibytes(d, id, "/dev/shm", "/big", "/plain"), "512 1024 256")
	if out, code := ownVerb(t, "denied", id); code != 0 || strings.Contains(out, "size") {
		t.Errorf("denied: %d, %s", code, out)
	}
	shared := sleeper(d, "--ipc", "shareable", "--shm-size", "768m")
	env.Equal(t, "shared memory that others may join", mebibytes(d, shared, "/dev/shm"), "768")
	// TestRunMountReadOnlyDevShm of moby's tests, with a directory that the jail may read.
	env.Equal(t, "a read-only directory there", mustRunJail(d, "--read-only", "-v", t.TempDir()+":/dev/shm:ro", engine.Busybox, "sh", "-c", "touch /dev/shm/x 2>&1; true"),
		"touch: /dev/shm/x: Read-only file system")
	for _, id := range []string{id, shared} {
		if out, code := ownVerb(t, "inspect", id); code != 0 {
			t.Errorf("inspect: %d, %s", code, out)
		}
	}
}

// TestRequestsAboveLimitsAreReported: what is requested above a limit is not lowered in silence: `denied` and the receipt have it.
func TestRequestsAboveLimitsAreReported(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	id := sleeper(d, "--shm-size", "900g", "--tmpfs", "/big:size=900g", "--memory", "900g", "--pids-limit", "5000", "--ulimit", "nofile=65536")
	env.Equal(t, "open files", strings.TrimSpace(sh(d, id, "ulimit -Hn")), "16384")
	fields := []string{
		"mounts[/dev/shm].size: 900GiB", "mounts[/big].size: 900GiB", "linux.resources.memory.limit: 900GiB",
		"linux.resources.pids.limit: 5000", "process.rlimits[RLIMIT_NOFILE]: 65536",
	}
	denied, _ := ownVerb(t, "denied", id)
	receipt, _ := ownVerb(t, "receipt", id)
	for _, f := range fields {
		if name, _, _ := strings.Cut(f, ":"); !strings.Contains(denied, name) || !strings.Contains(receipt, name) {
			t.Errorf("%s is in one of them alone:\n%s\n%s", f, denied, receipt)
		}
	}
	for _, v := range []string{"900GiB", "5000", "65536"} {
		if !strings.Contains(denied, v) {
			t.Errorf("%s is not in\n%s", v, denied)
		}
	}
	if r := d.Docker("update", "--pids-limit", "6000", id); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	env.Equal(t, "processes after an update", strings.TrimSpace(sh(d, id, "cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max")), "1024")
	if denied, _ := ownVerb(t, "denied", id); !strings.Contains(denied, "6000") {
		t.Errorf("an update above the limit is not in\n%s", denied)
	}
}
