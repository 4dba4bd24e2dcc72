package podman

import (
	"bytes"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestManyLayers: an image of more layers than mount options of a page can name by their full paths starts.
func TestManyLayers(t *testing.T) {
	p := root(t)
	var image bytes.Buffer
	env.Check(t, engine.LayeredArchive(&image, "localhost/layers", 119))
	if r := p.Run(&image, "podman", "load", "-q"); r.Code != 0 {
		t.Fatal(r)
	}
	const look = "ls /l | wc -l; stat -c %u:%g /l/0 /l/118; cat /l/7; echo other >/l/7; cat /l/7"
	env.Equal(t, "the image", mustRunJail(p, "localhost/layers", "sh", "-c", look), "119\n0:0\n0:0\n7other")
}

// TestRootfs: a directory as the root starts, alone and under an upper layer of podman's, which is in /run and so on another
// file system than the directory. Neither is written.
func TestRootfs(t *testing.T) {
	p := root(t)
	dir := t.TempDir() + "/root"
	const unpack = `mkdir "$0" && c=$(podman create ` + engine.Busybox + `) && podman export "$c" | tar -C "$0" -x && podman rm "$c"`
	if r := p.Run(nil, "sh", "-ec", unpack, dir); r.Code != 0 {
		t.Fatal(r)
	}
	for _, option := range []string{"", ":O"} {
		const look = "stat -c %u:%g /etc/passwd; echo x >/new; rm /etc/group; ls /new /etc/group 2>/dev/null"
		env.Equal(t, "--rootfs DIR"+option, mustRunJail(p, "--rootfs", dir+option, "sh", "-c", look+"; true"), "0:0\n/new")
	}
	env.Equal(t, "the directory", p.Run(nil, "sh", "-c", `cd "$0" && ls -d new etc/group 2>/dev/null`, dir).Stdout, "etc/group\n")
}
