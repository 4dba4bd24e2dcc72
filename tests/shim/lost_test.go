package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestLostProtection: the shim reports a placeholder that the host removes while its jail runs.
func TestLostProtection(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		dir := t.TempDir()
		for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
			env.Check(t, os.Chmod(d, 0o755))
		}
		env.Check(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
		for _, name := range []string{dir, filepath.Join(dir, "file")} {
			env.Check(t, os.Chown(name, 4711, 4711))
		}
		id := startJail(t, c, "--mount", "type=bind,src="+dir+",dst=/w,options=rbind:rw")
		env.Check(t, os.RemoveAll(filepath.Join(dir, ".vscode")))
		bin := env.Get(t, engine.UnderTest)
		var out []byte
		if !env.Poll(env.Patience, func() bool {
			out, _ = exec.Command(bin, "journal", "--json", id).CombinedOutput()
			return strings.Contains(string(out), `"protection.lost"`)
		}) {
			t.Fatalf("no alert:\n%s", out)
		}
		if !strings.Contains(string(out), `"/w/.vscode"`) {
			t.Errorf("the path is missing:\n%s", out)
		}
	})
}
