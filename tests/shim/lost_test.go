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
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{dir, filepath.Join(dir, "file")} {
			if err := os.Chown(name, 4711, 4711); err != nil {
				t.Fatal(err)
			}
		}
		id := start(t, c, "--mount", "type=bind,src="+dir+",dst=/w,options=rbind:rw")
		if err := os.RemoveAll(filepath.Join(dir, ".vscode")); err != nil {
			t.Fatal(err)
		}
		bin, err := engine.UnderTest()
		if err != nil {
			t.Fatal(err)
		}
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
