package shim

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestLabels: a label in containerd's record of a container, here its image's, tightens a jail by the shim and by the command line, and an
// invalid one refuses the start. None opens a port: containerd does not record which labels are the image's.
func TestLabels(t *testing.T) {
	engine.NeedsRoot(t, "it runs jails")
	dir := env.Get(t, engine.Shim)
	var layer bytes.Buffer
	env.Check(t, engine.BusyboxTree(&layer))
	each(t, func(t *testing.T, c *engine.CT) {
		for name, labels := range map[string]map[string]string{
			"docker.io/library/labelled:latest": {"dev.agentjail.root.size": "5MiB", "dev.agentjail.network.publish": "1:1"},
			"docker.io/library/misspelt:latest": {"dev.agentjail.root.sise": "5MiB"},
		} {
			env.Check(t, c.ImportImage(c.Namespace(), name, layer.Bytes(), engine.ImageConfig{Labels: labels, Env: []string{"PATH=/bin"}}))
		}
		for _, by := range [][]string{
			{"--runtime", engine.ShimRuntime},
			{"--runtime", "io.containerd.runc.v2", "--runc-binary", filepath.Join(dir, "agentjail")},
		} {
			run := func(image string) engine.Result {
				return c.Ctr(slices.Concat([]string{"run", "--rm"}, by, []string{"docker.io/library/" + image + ":latest", newID(), "df", "/"})...)
			}
			env.Contain(t, "the layer's size", run("labelled").Must(t), " 5120 ")
			if r := run("misspelt"); r.Code == 0 || !strings.Contains(r.Stderr, "root.size") {
				t.Errorf("%q: an invalid label: %s", by, r)
			}
		}
	})
}
