package boundary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// startDocker starts an engine with the runtime agentjail-gvisor, which is agentjail by the name of the policy.
func startDocker(t *testing.T) *engine.T {
	t.Helper()
	link := filepath.Join(engine.TempDir(t, "/var/tmp", "agentjail-boundary-"), "agentjail-gvisor")
	env.Check(t, os.Symlink(bin, link))
	e := engine.StartFor(t, engine.Options{Runtimes: map[string]engine.Runtime{"agentjail-gvisor": {Path: link}}})
	return e.For(t)
}

// TestDocker: the daily verbs of Docker work over the sandbox, and nothing stays.
func TestDocker(t *testing.T) {
	d := startDocker(t)
	const runtime = "--runtime=agentjail-gvisor"
	// No file system of the guest's own takes half of the memory; policy's tmpfs.size is 256 MiB.
	// It is as read-only as the root.
	if r := d.Docker("run", "--rm", runtime, "--read-only", engine.Busybox, "sh", "-c", "df -k /tmp | tail -1; touch /tmp/x || exit 5"); r.Code != 5 || !strings.Contains(r.Stdout, "262144") {
		t.Errorf("/tmp: %s", r)
	}
	id := d.Detached(runtime, engine.Busybox, "sh", "-c", "echo begins; trap 'exit 3' TERM; while :; do sleep 0.1; done")
	for code, command := range map[int]string{0: "true", 5: "exit 5", 127: "exec /no/such/program", 137: "kill -9 $$"} {
		if r := d.Docker("exec", id, "sh", "-c", command); r.Code != code {
			t.Errorf("%s: want %d: %s", command, code, r)
		}
	}
	if r := d.Docker("exec", id, "sh", "-c", "cat /proc/version; exit 4"); r.Code != 4 || !strings.Contains(r.Stdout, "Linux version 4.") {
		t.Errorf("exec: %s", r)
	}
	if r := d.Docker("run", "--rm", runtime, "--network=container:"+id, engine.Busybox, "true"); r.Code != 125 && r.Code != 1 ||
		!strings.Contains(r.Stderr, "joins namespaces of jail "+id) {
		t.Errorf("a second container: %s", r)
	}
	dir := engine.TempDir(t, "/tmp", "agentjail-boundary-")
	env.Check(t, os.WriteFile(filepath.Join(dir, "in"), []byte("from outside"), 0o644))
	d.Must("cp", filepath.Join(dir, "in"), id+":/root/in")
	if out := d.Must("exec", id, "sh", "-c", "cat /root/in; echo from inside >/root/out"); !strings.Contains(out, "from outside") {
		t.Errorf("copied in: %q", out)
	}
	d.Must("cp", id+":/root/out", filepath.Join(dir, "out"))
	if text, err := os.ReadFile(filepath.Join(dir, "out")); string(text) != "from inside\n" || err != nil {
		t.Errorf("copied out: %q, %v", text, err)
	}
	// The processes are the sandbox's, and none of the host's that happen to have the guest's numbers.
	pid := strings.TrimSpace(d.Must("inspect", "--format", "{{.State.Pid}}", id))
	if out := strings.Split(strings.TrimSpace(d.Must("top", id, "-o", "pid")), "\n"); len(out) != 2 || strings.TrimSpace(out[1]) != pid {
		t.Errorf("top: %q, want %s", out, pid)
	}
	d.Must("pause", id)
	d.Must("unpause", id)
	d.Must("update", "--memory=200m", "--memory-swap=200m", "--pids-limit=50", id)
	if most := engine.CgroupLimit(env.Number(t, pid), "pids", "pids.max", "pids.max"); most != 2*50+256 {
		t.Errorf("after an update the host's limit on processes is %d", most)
	}
	for _, size := range hostfacts.Read().HugePages {
		if most := engine.CgroupLimit(env.Number(t, pid), "hugetlb", "hugetlb."+size+".limit_in_bytes", "hugetlb."+size+".max"); most != 0 {
			t.Errorf("huge pages of %s: the limit is %d", size, most)
		}
	}
	if out := d.Must("stats", "--no-stream", "--format", "{{.PIDs}}", id); strings.TrimSpace(out) == "0" {
		t.Errorf("stats: %q", out)
	}
	if in := inspect(t, id); !in.Holds {
		t.Errorf("%+v", in)
	}
	if out := d.Must("logs", id); !strings.HasPrefix(out, "begins") {
		t.Errorf("logs: %q", out)
	}
	d.Must("restart", "--time=5", id)
	if r := d.Docker("exec", id, "cat", "/root/out"); r.Stdout != "from inside\n" && r.Code == 0 {
		t.Errorf("after a restart: %s", r)
	}
	if again := strings.TrimSpace(d.Must("inspect", "--format", "{{.State.Running}} {{.State.Pid}}", id)); again == "true "+pid || !strings.HasPrefix(again, "true ") {
		t.Errorf("restarted: %q, and before it was process %s", again, pid)
	}
	d.Must("stop", id)
	if out := strings.TrimSpace(d.Must("wait", id)); out != "3" {
		t.Errorf("stopped with status %s", out)
	}
	env.Eventually(t, "nothing is left", func() bool { return len(left(id[:20])) == 0 })
	d.Must("start", id)
	d.Must("kill", id)
	if out := strings.TrimSpace(d.Must("wait", id)); out != "137" {
		t.Errorf("killed with status %s", out)
	}
	d.Must("rm", id)
	env.Eventually(t, "nothing is left", func() bool { return len(left(id[:20])) == 0 })
}
