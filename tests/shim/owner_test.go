package shim

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestOwnerAnnotation: an annotation names who of a jail owns a mounted directory.
func TestOwnerAnnotation(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		dir := t.TempDir()
		for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
			env.Check(t, os.Chmod(d, 0o755))
		}
		env.Check(t, os.Chown(dir, 4711, 4711))
		id := startJail(t, c, "--annotation", "dev.agentjail.binds.owner=1000:1000", "--mount", "type=bind,src="+dir+",dst=/w,options=rbind:rw")
		c.Must("tasks", "exec", "--exec-id", newID(), "--user", "1000", id, "touch", "/w/new")
		st, err := os.Stat(filepath.Join(dir, "new"))
		env.Check(t, err)
		if s := st.Sys().(*syscall.Stat_t); s.Uid != 4711 || s.Gid != 4711 {
			t.Errorf("the file belongs to %d:%d on the host", s.Uid, s.Gid)
		}
		lost := func(r engine.Result) bool { return r.Code != 0 && strings.TrimSpace(r.Stderr) == "" }
		r := engine.Heard(lost, func() engine.Result { return execIn(c, id, "touch", "/w/roots") })
		if r.Code == 0 || !strings.Contains(r.Stderr, "Permission denied") {
			t.Errorf("the first process's user: %s", r)
		}
	})
}
