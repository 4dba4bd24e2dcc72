package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// mount is one of Docker's mounts that the tests' client has no option for.
type mount = map[string]any

// withMounts starts a jail that sleeps, with mounts, and skips the test of a Docker that does not know one of them. It
// returns the container, or the error of its start.
func withMounts(d *engine.T, api string, mounts ...mount) (id, failed string) {
	d.Helper()
	out, err := d.API("POST", api+"/containers/create", mount{
		"Image": engine.Busybox, "Cmd": []string{"sleep", "3600"},
		"HostConfig": mount{"Runtime": engine.Name, "NetworkMode": "none", "Mounts": mounts},
	})
	if strings.Contains(err, "is too new") {
		d.Skip("this Docker has no such mount:", err)
	}
	if err != "" {
		d.Fatal(err)
	}
	id, _ = out["Id"].(string)
	d.Cleanup(func() { d.Remove(id) })
	_, failed = d.API("POST", api+"/containers/"+id+"/start", nil)
	return id, failed
}

// TestNestedInReadOnly: what is mounted in a read-only mount may be writable. Docker 25 and later mount read-only with all below.
func TestNestedInReadOnly(t *testing.T) {
	const vol = "e2e-in-read-only"
	d := d(t)
	t.Cleanup(func() { d.Docker("volume", "rm", "-f", vol) })
	outer := directory(t, 1000)
	for _, point := range []string{"dir", "vol", "tmp"} {
		env.Check(t, os.Mkdir(filepath.Join(outer, point), 0o755))
	}
	id, failed := withMounts(d, "/v1.44", mount{"Type": "bind", "Source": outer, "Target": "/w", "ReadOnly": true},
		mount{"Type": "bind", "Source": directory(t, 1000), "Target": "/w/dir"},
		mount{"Type": "volume", "Source": vol, "Target": "/w/vol"}, mount{"Type": "tmpfs", "Target": "/w/tmp"})
	if failed != "" {
		t.Fatal(failed)
	}
	env.Equal(t, "writable", sh(d, id, "cd /w; for f in x dir/x vol/x tmp/x; do touch $f 2>/dev/null && echo $f; done; true"), "dir/x\nvol/x\ntmp/x")
}

// TestVolumeSubpath: a part of a volume, a directory or a file (Docker 26 and later), is as the volume is, and what lies
// beside it is not there. A part of a directory that is a volume is judged as the directory.
func TestVolumeSubpath(t *testing.T) {
	d := d(t)
	d.Must("volume", "create", "parts")
	d.Must("run", "--rm", "--runtime=runc", "-v", "parts:/d", engine.Busybox, "sh", "-c",
		"mkdir -p /d/a/b; echo in >/d/a/b/f; echo 7 >/d/a/b/seven; chown 7:8 /d/a/b/seven; chmod 600 /d/a/b/seven; echo beside >/d/top")
	part := func(volume, sub, at string) mount {
		return mount{"Type": "volume", "Source": volume, "Target": at, "VolumeOptions": mount{"Subpath": sub}}
	}
	id, failed := withMounts(d, "/v1.45", part("parts", "a/b", "/m"), part("parts", "a/b/f", "/f"))
	if failed != "" {
		t.Fatal(failed)
	}
	env.Equal(t, "what the jail sees", sh(d, id, "ls /m; cat /f; stat -c %u:%g /m/seven; echo out >/m/new; stat -c %u /m/new; cat /m/../top 2>/dev/null || echo none"),
		"f\nseven\nin\n7:8\n0\nnone")
	env.Equal(t, "its user", d.Must("exec", "-u", "7", id, "cat", "/m/seven"), "7")
	env.Equal(t, "the volume", d.Must("run", "--rm", "--runtime=runc", "-v", "parts:/d", engine.Busybox, "cat", "/d/a/b/new"), "out")

	d.Must("volume", "create", "-o", "type=none", "-o", "o=bind", "-o", "device=/etc", "host")
	if id, failed := withMounts(d, "/v1.45", part("host", "ssh", "/m")); engine.UnderTestIsAgentjail() && !strings.Contains(failed, "the host's configuration") {
		t.Errorf("a part of the host's /etc: %s, %q", id, failed)
	}
}

// TestImageMount: an image as a mount (Docker 28 and later), and a part of one, have the owners of the image, and cannot be
// written to; a container's root beside it is refused, and no remedy opens the engine's storage.
func TestImageMount(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	var many bytes.Buffer
	env.Check(t, engine.LayeredArchive(&many, "mounted", 100))
	image := func(name, at, sub string) mount {
		return mount{"Type": "image", "Source": name, "Target": at, "ImageOptions": mount{"Subpath": sub}}
	}
	if r := d.DockerIn(&many, "load"); r.Code != 0 {
		t.Fatal(r)
	}
	id, failed := withMounts(d, "/v1.48", image("mounted", "/im", ""), image("mounted", "/etc2", "etc"), image("mounted", "/f", "l/99"))
	if failed != "" {
		t.Fatal(failed)
	}
	env.Equal(t, "what the jail sees", sh(d, id, "ls /im/l | wc -l; cat /f; stat -c %u:%g /f /im/bin/busybox /im/home/app; cat /etc2/image-secret; /im/bin/busybox echo runs"),
		"100\n990:0\n0:0\n1000:1000\nonly for root of the image\nruns")
	if r := d.Docker("exec", "-u", "1000", id, "cat", "/im/etc/image-secret"); r.Code == 0 {
		t.Errorf("another user reads what is root's: %s", r)
	}
	env.Equal(t, "written", sh(d, id, "for f in /im/new /etc2/passwd /f; do echo x 2>/dev/null >>$f || echo refused; done"), "refused\nrefused\nrefused")
	if out, code := ownVerb(t, "inspect", id); code != 0 {
		t.Errorf("inspect: %d: %s", code, out)
	}
	// The root of another container is not an image.
	merged := strings.Fields(engine.Run(t, "sh", "-c", "awk '$5 ~ \"^"+d.Dir+"\" && / overlay overlay / {print $5}' /proc/self/mountinfo").Stdout)
	tried := 0
	for _, dir := range merged {
		r := runJail(d, "-v", dir+":/x:ro", engine.Busybox, "true")
		switch _, err := os.Lstat(dir); {
		case r.Code != 0 && strings.Contains(r.Stderr, "an engine keeps its containers in"):
			tried++
		case !os.IsNotExist(err): // it is not another test's, which has ended
			t.Errorf("the engine's %s: %s", dir, r)
		}
	}
	if tried == 0 {
		t.Error("no root of a container was found")
	}
}
