package shim

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// Docker runs jails by the shim: by its name (Docker 23) and as a runtime of its configuration, with a profile (Docker
// 24).
func TestDocker(t *testing.T) {
	engine.NeedsRoot(t, "it runs jails")
	out, err := exec.Command("dockerd", "--version").Output()
	if err != nil {
		t.Skip("no dockerd:", err)
	}
	// Docker version 26.1.5+dfsg1, build a72d7cd
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "Docker version "), ".")
	if n, err := strconv.Atoi(major); err == nil && n < 24 {
		t.Skipf("%s takes runtimes by their shims since 24", strings.TrimSpace(string(out)))
	}
	dir, err := engine.Shim()
	if err != nil {
		t.Fatal(err)
	}
	small := policyFile(t, "[limits]\nmemory = \"50MiB\"\n")
	e, err := engine.Start(engine.Options{
		Shims: []string{dir}, Log: t.Logf,
		Runtimes: map[string]engine.Runtime{
			"small": {Type: engine.ShimRuntime, Options: map[string]any{"TypeUrl": "agentjail", "ConfigPath": small}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := e.ImportBusybox(); err != nil {
		t.Fatal(err)
	}
	d := e.For(t)
	for _, runtime := range []string{engine.ShimRuntime, "small"} {
		hardened(t, d.Must("run", "--rm", "--privileged", "--network", "none", "--runtime", runtime, engine.Busybox, "probe", "identity"))
		id := d.Detached("--network", "none", "--runtime", runtime, engine.Busybox, "sleep", "1000")
		hardened(t, d.Must("exec", "--privileged", id, "probe", "identity"))
		total := d.Must("exec", id, "grep", "MemTotal", "/proc/meminfo")
		if small := strings.HasSuffix(total, " 51200 kB"); small != (runtime == "small") {
			t.Errorf("%s: %s", runtime, total)
		}
		if r := d.Docker("exec", id, "sh", "-c", "exit 4"); r.Code != 4 {
			t.Error(r)
		}
		d.Must("update", "--memory", "40m", "--memory-swap", "40m", id)
		if total := d.Must("exec", id, "grep", "MemTotal", "/proc/meminfo"); !strings.HasSuffix(total, " 40960 kB") {
			t.Error(total)
		}
		d.Must("stats", "--no-stream", id)
		d.Must("pause", id)
		d.Must("unpause", id)
		d.Must("restart", "-t", "0", id)
		d.Must("kill", id)
		if code := d.Must("wait", id); code != "137" {
			t.Errorf("exit code %s", code)
		}
	}
}
