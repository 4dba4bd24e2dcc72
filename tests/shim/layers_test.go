package shim

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestManyLayers: an image of more layers than mount options of a page can name by their full paths starts, by the shim
// and by the command line, also over a view without a layer to write to.
func TestManyLayers(t *testing.T) {
	engine.NeedsRoot(t, "it runs jails")
	dir := env.Get(t, engine.Shim)
	var image bytes.Buffer
	env.Check(t, engine.LayeredArchive(&image, "docker.io/library/layers", 119))
	each(t, func(t *testing.T, c *engine.CT) {
		ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
		defer cancel()
		if r := engine.RunCommand(ctx, c.Command(ctx, "images", "import", "-"), bytes.NewReader(image.Bytes())); r.Code != 0 {
			t.Fatal(r)
		}
		for _, by := range [][]string{
			{"--runtime", engine.ShimRuntime},
			{"--runtime", "io.containerd.runc.v2", "--runc-binary", filepath.Join(dir, "agentjail")},
		} {
			for _, options := range [][]string{nil, {"--read-only"}} {
				r := engine.Heard(engine.Silent, func() engine.Result {
					return c.Ctr(slices.Concat([]string{"run", "--rm"}, by, options, []string{
						"docker.io/library/layers:latest", newID(), "sh", "-c", "ls /l | wc -l; stat -c %u /l/118; cat /l/7",
					})...)
				})
				if r.Code != 0 || r.Stdout != "119\n0\n7" {
					t.Errorf("%q %q: %s", by, options, r)
				}
			}
		}
		nothingLeft(t, c)
	})
}
