package receipt

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"agentjail.dev/runtime/observe/receipt"
	"agentjail.dev/tests/engine"
)

// TestNested: where mounts lie in each other, each changed file is named by its own mount.
func TestNested(t *testing.T) {
	d := docker.For(t)
	outer, inner, other := workspace(t), workspace(t), workspace(t)
	if err := os.Remove(filepath.Join(inner, "sub")); err != nil {
		t.Fatal(err)
	}
	id := d.Detached("--runtime", "agentjail-receipt", "-v", outer+":/work", "-v", inner+":/work/sub", "-v", other+":/zdata",
		engine.Busybox, "sh", "-c", "echo > /work/a; echo > /work/sub/b; echo > /zdata/c")
	d.Must("wait", id)
	d.Must("rm", id)
	r := of(t, id)
	for at, name := range map[string]string{"/work": "/work/a", "/work/sub": "/work/sub/b", "/zdata": "/zdata/c"} {
		i := slices.IndexFunc(r.Touched.Mounted, func(m receipt.Mounted) bool { return m.At == at })
		if i < 0 {
			t.Errorf("%s is not in %+v", at, r.Touched.Mounted)
		} else if m := r.Touched.Mounted[i]; m.Short == "" && !slices.Contains(m.Changed, name) {
			t.Errorf("%s is not in %q", name, m.Changed)
		}
	}
	if len(r.Touched.Mounted) != 3 {
		t.Errorf("%+v", r.Touched.Mounted)
	}
}
