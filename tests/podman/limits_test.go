package podman

import (
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestLimits: sizes that a person requests are those of the jail, what is above a limit is denied, and Podman's own
// defaults, which are above limits too, are not.
func TestLimits(t *testing.T) {
	p := root(t)
	sizes := func(id string) string {
		return strings.TrimSpace(p.Must("exec", id, "sh", "-c", "df -m /dev/shm /big | awk 'NR > 1 { print $2 }' | xargs"))
	}
	denied := func(id string) string {
		r := p.Run(nil, filepath.Join(filepath.Dir(under), "agentjailctl"), "denied", id)
		if r.Code != 0 {
			t.Fatal(r.Stderr)
		}
		return r.Stdout
	}
	plain := p.Detached("--network=none", "--shm-size", "512m", "--tmpfs", "/big:size=1g", engine.Busybox, "sleep", "3600")
	if got := sizes(plain); got != "512 1024" {
		t.Errorf("sizes: %q", got)
	}
	for _, f := range []string{"pids", "rlimits", "size"} {
		if out := denied(plain); strings.Contains(out, f) {
			t.Errorf("%s is denied although no person requested it:\n%s", f, out)
		}
	}
	more := p.Detached("--network=none", "--shm-size", "900g", "--tmpfs", "/big:size=1g", "--pids-limit", "5000", "--ulimit", "nofile=65536", engine.Busybox, "sleep", "3600")
	for _, f := range []string{"mounts[/dev/shm].size", "linux.resources.pids.limit", "process.rlimits[RLIMIT_NOFILE]"} {
		if out := denied(more); !strings.Contains(out, f) {
			t.Errorf("%s is not in\n%s", f, out)
		}
	}
	r := p.Podman("run", "--rm", "--network=none", "--annotation", "dev.agentjail.on_loosen=refuse", "--pids-limit", "5000", engine.Busybox, "true")
	if r.Code == 0 || !strings.Contains(r.Stderr, "linux.resources.pids.limit: refused: 5000 is more than policy allows") {
		t.Errorf("where policy refuses: %d %s", r.Code, r.Stderr)
	}
}

// TestCommandsFindPodmansNames: `agentjail ls` and other commands know a container by Podman's name, and its image's, also after its end. The receipt has the exit
// status of each run, which Podman removes with the container.
func TestCommandsFindPodmansNames(t *testing.T) {
	p := root(t)
	own := filepath.Join(filepath.Dir(under), "agentjailctl")
	prints := func(what string, want ...string) {
		t.Helper()
		for _, w := range want {
			if r := p.Run(nil, append([]string{own}, strings.Fields(what)...)...); r.Code != 0 || !strings.Contains(r.Stdout, w) {
				t.Errorf("agentjail %s lacks %q: %s", what, w, r)
			}
		}
	}
	id := p.Detached("--name", "agentjail-named", "--network=none", engine.Busybox, "sh", "-c", "trap 'exit 9' TERM; while ! test -e /tmp/end; do sleep .1; done; exit 7")
	prints("ls", "agentjail-named", engine.Busybox)
	p.Must("exec", id, "touch", "/tmp/end")
	env.Equal(t, "podman wait", p.Must("wait", id), "7")
	prints("receipt agentjail-named", "receipt of jail agentjail-named", "exit status 7", engine.Busybox)
	p.Must("restart", id)
	p.Must("rm", "-f", id)
	prints("receipt agentjail-named", "exit status 9")
	if r := p.Podman("run", "--rm", "--name", "agentjail-brief", "--network=none", engine.Busybox, "sh", "-c", "exit 3"); r.Code != 3 {
		t.Errorf("podman run: %s", r)
	}
	prints("receipt agentjail-brief", "exit status 3")
}

// TestHighIDs: a user and groups from 65536 on are the process's.
func TestHighIDs(t *testing.T) {
	p := root(t)
	id := p.Detached("--network=none", "-u", "100000:100001", "--group-add", "70000", engine.Busybox, "sleep", "3600")
	if got := strings.TrimSpace(p.Must("exec", id, "sh", "-c", "id -u; id -G; touch /tmp/x; stat -c %u:%g /tmp/x")); got != "100000\n100001 70000\n100000:100001" {
		t.Errorf("%q", got)
	}
}
