package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestLsShowsEngineNames: a container is listed by the engine's names for it, while it runs and after its end, and
// commands find it by them.
func TestLsShowsEngineNames(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const name = "agentjail-test-ls"
	id := d.Detached("--name", name, jail, "--privileged", engine.Busybox, "sleep", "3600")
	type row struct {
		ID, Name, Image, Engine, State, Exit, At string
		Refused                                  int
	}
	listed := func() row {
		t.Helper()
		out, code := ownVerb(t, "ls", "--json")
		var list struct {
			Schema string
			Jails  []row
		}
		if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil || list.Schema == "" {
			t.Fatalf("status %d, %v: %s", code, err, out)
		}
		i := slices.IndexFunc(list.Jails, func(r row) bool { return r.ID == id })
		if i < 0 {
			t.Fatalf("%s is not in %s", id, out)
		}
		return list.Jails[i]
	}
	if r := listed(); r.Name != name || r.Image != engine.Busybox || r.Engine != "docker" || r.State != "running" || r.Refused == 0 {
		t.Errorf("while it runs: %+v", r)
	}
	if out, code := ownVerb(t, "ls"); code != 0 || !strings.Contains(out, id[:12]) || !strings.Contains(out, name) {
		t.Errorf("status %d: %s", code, out)
	}
	find := func() {
		t.Helper()
		for _, n := range []string{name, id[:12], id, listed().At} {
			if out, code := ownVerb(t, "denied", n); code != 0 || !strings.Contains(out, "process.capabilities") {
				t.Errorf("denied %s: %d, %s", n, code, out)
			}
		}
	}
	find()
	reports(t, d, name)
	d.Must("rm", "-f", name)
	if r := listed(); r.Name != name || r.State != "ended" {
		t.Errorf("after its end: %+v", r)
	}
	if out, code := ownVerb(t, "ls", "--running"); code != 0 || strings.Contains(out, id[:12]) {
		t.Errorf("of those that run: %d, %s", code, out)
	}
	find()
}

// reports fails the test unless the events of a running container, which is called by a name, are watched.
func reports(t *testing.T, d *engine.T, name string) {
	t.Helper()
	path := env.Get(t, engine.UnderTest)
	cmd := exec.Command(path, "watch", name)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	env.Check(t, err)
	defer func() { // also where no event comes
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
	}()
	line := make(chan string, 1)
	go func() {
		s := bufio.NewScanner(out)
		if s.Scan() {
			line <- s.Text()
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	env.Eventually(t, "an event", func() bool {
		d.Must("exec", name, "true")
		return len(line) > 0
	})
}

// TestExitStatusKept: the receipt has a container's exit status: by the shim from the journal, by path from Docker's record.
func TestExitStatusKept(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	id := d.Detached(jail, engine.Busybox, "sh", "-c", "exit 7")
	d.Must("wait", id)
	env.Eventually(t, "the exit status in the receipt", func() bool { out, _ := ownVerb(t, "receipt", id); return strings.Contains(out, "exit status 7") })
	d.Must("rm", id)
	want := "exit status not known: the engine waited"
	if d.Edition().ByShim {
		want = "exit status 7"
	}
	if out, code := ownVerb(t, "receipt", id); code != 0 || !strings.Contains(out, want) {
		t.Errorf("after docker rm: status %d, want %q in %s", code, want, out)
	}
}
