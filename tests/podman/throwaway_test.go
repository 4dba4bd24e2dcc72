package podman

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestImageMount: an image as a mount has the owners of the image, and cannot be written to. The root of a container is no
// image.
func TestImageMount(t *testing.T) {
	p := root(t)
	const look = "stat -c %u:%g /im/bin/busybox /im/home/app; cat /im/etc/image-secret; /im/bin/busybox echo runs; echo x 2>/dev/null >/im/new || echo refused; grep -c /var/lib /proc/mounts || true"
	mount := []string{"--mount", "type=image,src=" + engine.Busybox + ",dst=/im"}
	env.Equal(t, "the image", mustRunJail(p, append(mount, engine.Busybox, "sh", "-c", look)...), "0:0\n1000:1000\nonly for root of the image\nruns\nrefused\n0")
	env.Equal(t, "for another user", mustRunJail(p, append(mount, "-u", "1000", engine.Busybox, "sh", "-c", "cat /im/etc/image-secret 2>/dev/null || echo denied")...), "denied")
	writable := []string{"--mount", "type=image,src=" + engine.Busybox + ",dst=/im,rw=true"}
	const change = "echo new >/im/new; echo more >>/im/etc/image-secret; rm /im/bin/busybox; stat -c %u:%g /im/new /im/home/app; tail -n 1 /im/etc/image-secret; ls /im/bin/busybox 2>/dev/null || echo gone"
	for range 2 { // the image stays as it is
		env.Equal(t, "written to", mustRunJail(p, append(writable, engine.Busybox, "sh", "-c", "cat /im/etc/image-secret;"+change)...), "only for root of the image\n0:0\n1000:1000\nmore\ngone")
	}
	merged := p.Must("inspect", "--format", "{{.GraphDriver.Data.MergedDir}}", startJail(p, engine.Busybox, "sleep", "3600"))
	for _, option := range []string{"ro", "O"} {
		r := p.Podman("run", "--rm", "--network=none", "-v", merged+":/im:"+option, engine.Busybox, "true")
		if r.Code == 0 || !strings.Contains(r.Stderr, "an engine keeps its containers") || strings.Contains(r.Stderr, "binds.allow") {
			t.Errorf("a container's root, %s: %s", option, r)
		}
	}
}

// TestThrowAway: a directory or volume with podman's :O is there to write to, as who owns it, and what is written ends with
// the jail. What no jail may read is refused so too.
func TestThrowAway(t *testing.T) {
	p := root(t)
	dir := filepath.Join(t.TempDir(), "d")
	must := func(err error) {
		t.Helper()
		env.Check(t, err)
	}
	must(os.MkdirAll(dir+"/sub", 0o755))
	for _, f := range []string{"f", "gone", "sub/g"} {
		must(os.WriteFile(filepath.Join(dir, f), []byte("was\n"), 0o600))
	}
	must(os.WriteFile(filepath.Join(dir, "roots"), []byte("secret\n"), 0o600))
	for _, f := range []string{".", "f", "gone", "sub", "sub/g"} {
		must(os.Chown(filepath.Join(dir, f), 1000, 1000))
	}
	before := engine.ListVolume(t, dir)
	const change = "echo is >/o/f; rm /o/gone; mv /o/sub/g /o/sub/h; echo new >/o/new; cat /o/f /o/sub/h; stat -c %u /o /o/f /o/new; ls /o; cat /o/roots 2>/dev/null || echo denied"
	const want = "is\nwas\n0\n0\n0\nf\nnew\nroots\nsub\ndenied"
	for _, user := range []string{"0", "1000"} {
		env.Equal(t, "as "+user, mustRunJail(p, "-u", user, "-v", dir+":/o:O", engine.Busybox, "sh", "-c", change), strings.ReplaceAll(want, "\n0\n0\n0\n", "\n"+user+"\n"+user+"\n"+user+"\n"))
		env.Equal(t, "the directory after "+user, engine.ListVolume(t, dir), before)
	}

	p.Must("volume", "create", "away")
	mustRunJail(p, "-v", "away:/o", engine.Busybox, "sh", "-c", "echo was >/o/f")
	env.Equal(t, "a volume", mustRunJail(p, "-v", "away:/o:O", engine.Busybox, "sh", "-c", "echo is >/o/f; cat /o/f; grep -c /var/lib /proc/mounts || true"), "is\n0")
	env.Equal(t, "the volume after", mustRunJail(p, "-v", "away:/o", engine.Busybox, "cat", "/o/f"), "was")

	id := startJail(p, "-v", dir+":/o:O", engine.Busybox, "sleep", "3600")
	if r := p.Run(nil, under, "inspect", id); r.Code != 0 || !strings.Contains(r.Stdout, "ephemeral layer") {
		t.Errorf("inspect: %s", r)
	}
	for _, c := range [][2]string{{"/etc", "the host's configuration"}, {"/var/lib/containers/storage", "an engine keeps its containers"}} {
		r := p.Podman("run", "--rm", "--network=none", "-v", c[0]+":/o:O", engine.Busybox, "true")
		if r.Code == 0 || !strings.Contains(r.Stderr, c[1]) {
			t.Errorf("%s: %s", c[0], r)
		}
	}
}
