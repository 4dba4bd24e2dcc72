package e2e

import (
	"bytes"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestManyLayers: an image of more layers than mount options of a page can name by their full paths starts, with the
// owners of its files, and is written to; nothing of its layers changes.
func TestManyLayers(t *testing.T) {
	d := d(t)
	var image bytes.Buffer
	env.Check(t, engine.LayeredArchive(&image, "layers", 119))
	if r := d.DockerIn(&image, "load"); r.Code != 0 {
		t.Fatal(r)
	}
	const look = "ls /l | wc -l; stat -c %u:%g /l/0 /l/118; cat /l/7; echo other >/l/7; cat /l/7"
	for range 2 {
		env.Equal(t, "the image", mustRunJail(d, "layers", "sh", "-c", look), "119\n0:0\n0:0\n7other")
	}
	id := startJail(d, "layers", "sleep", "3600")
	d.Must("restart", "-t", "0", id)
	env.Equal(t, "restarted", d.Must("exec", id, "sh", "-c", "ls /l | wc -l"), "119")
	if engine.UnderTestIsAgentjail() && strings.Contains(reportOf(t, id), "copied into the layer") {
		t.Error("its layers were not found: the owners of its files were copied")
	}
}
