package podman

import (
	"bytes"
	"testing"

	"agentjail.dev/tests/engine"
)

// TestManyLayers: an image of more layers than mount options of a page can name by their full paths starts.
func TestManyLayers(t *testing.T) {
	p := root(t)
	var image bytes.Buffer
	if err := engine.LayeredArchive(&image, "localhost/layers", 119); err != nil {
		t.Fatal(err)
	}
	if r := p.Run(&image, "podman", "load", "-q"); r.Code != 0 {
		t.Fatal(r)
	}
	const look = "ls /l | wc -l; stat -c %u:%g /l/0 /l/118; cat /l/7; echo other >/l/7; cat /l/7"
	eq(t, "the image", mustRun(p, "localhost/layers", "sh", "-c", look), "119\n0:0\n0:0\n7other")
}
