package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// A container that is paused before its start is not started, and can be later.
func TestStartPaused(t *testing.T) {
	id := fmt.Sprintf("crash%d-paused", os.Getpid())
	defer cleanUp(t, id)
	must := func(args ...string) {
		t.Helper()
		if code, text := agentjail(t, nil, args...); code != 0 {
			t.Fatalf("%q: status %d\n%s", args, code, text)
		}
	}
	must(verbs(id)[0]...)
	if promise.Sandbox() != "" { // gVisor would stop its kernel for good
		if code, text := agentjail(t, nil, "pause", id); code != 1 || !strings.Contains(text, "is not started") {
			t.Errorf("pause before start: status %d\n%s", code, text)
		}
		must("start", id)
		must("exec", id, "true")
		return
	}
	must("pause", id)
	code, text := agentjail(t, nil, "start", id)
	if code != 0 && !strings.Contains(text, "paused") {
		t.Errorf("start while paused: status %d\n%s", code, text)
	}
	must("resume", id)
	if code != 0 { // crun starts it all the same
		must("start", id)
	}
	code, text = agentjail(t, nil, "start", id)
	if code == 0 {
		t.Error("a container that runs is started again")
	}
	t.Logf("a second start: status %d, %s", code, text)
}

// With a policy file that has been broken since, a jail can still be ended, and no jail can be
// made.
func TestBrokenPolicy(t *testing.T) {
	bin := env.Get(t, engine.BinDir)
	broken := filepath.Join(bin, "broken.toml")
	env.Check(t, os.WriteFile(broken, []byte("nonsense = \n"), 0o644))
	id := fmt.Sprintf("crash%d-policy", os.Getpid())
	defer cleanUp(t, id)
	if code, text := agentjail(t, nil, append([]string{"--config", broken}, verbs(id)[0]...)...); code != 1 || !strings.Contains(text, broken) {
		t.Errorf("create: status %d\n%s", code, text)
	}
	for _, args := range [][]string{verbs(id)[0], verbs(id)[1], {"kill", id, "KILL"}, {"delete", "--force", id}} {
		if args[0] != "create" {
			args = append([]string{"--config", broken}, args...)
		}
		if code, text := agentjail(t, nil, args...); code != 0 {
			t.Errorf("%q: status %d\n%s", args, code, text)
		}
	}
	waitGone(t, id)
}
