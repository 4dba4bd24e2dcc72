package shim

import (
	"os"
	"path/filepath"
	"testing"

	"agentjail.dev/tests/engine"
)

// TestReview: by annotations a container writes into a view of its directory, and the directory changes by apply alone.
func TestReview(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		bin, err := engine.UnderTest()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(dir, 1000, 1000); err != nil {
			t.Fatal(err)
		}
		id := start(t, c, append([]string{"--mount", "type=bind,src=" + dir + ",dst=/w,options=rbind:rw"}, engine.ReviewAnnotations...)...)
		if r := in(c, id, "sh", "-ec", "echo text >/w/new; mkdir /w/d; mv /w/d /w/d2"); r.Code != 0 {
			t.Fatal(r)
		}
		remove(t, c, id)
		engine.Reviewed(t, dir, func(args ...string) engine.Result { return engine.Run(t, bin, args...) })
	})
}
