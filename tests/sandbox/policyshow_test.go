package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// TestPolicyShow: the values of a directory's own file are shown with their place, and a wider one is an answer with status 1.
func TestPolicyShow(t *testing.T) {
	dir := t.TempDir()
	show := func(text string) (int, string) {
		t.Helper()
		env.Check(t, os.WriteFile(filepath.Join(dir, ".agentjail.toml"), []byte(text), 0o644))
		return agentjail(t, "policy", "show", "--workspace", dir)
	}
	if code, out := show("limits.pids = 7\n"); code != 0 || !strings.Contains(out, "limits.pids = 7 # "+dir+"/.agentjail.toml\n") {
		t.Errorf("%d: %s", code, out)
	}
	if code, out := show("limits.pids = 1000000\n"); code != 1 || !strings.Contains(out, "line 1") || !strings.Contains(out, "wider than") {
		t.Errorf("%d: %s", code, out)
	}
	if code, out := agentjail(t, "policy", "show", "--workspace", t.TempDir()); code != 0 || strings.Contains(out, ".agentjail.toml") {
		t.Errorf("without a file: %d: %s", code, out)
	}
}
