package e2e

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func TestCopyOut(t *testing.T) {
	d := d(t)
	id := startJail(d, engine.Busybox, "sh", "-c", "mkdir -p /made/dir; echo made > /made/dir/file; echo changed > /etc/group; touch /made/ready; sleep 3600")
	env.Eventually(d, "files", func() bool { return d.Docker("exec", id, "test", "-e", "/made/ready").Code == 0 })
	to := t.TempDir()
	d.Must("cp", id+":/made", to)
	env.Equal(t, "a new file", string(env.Read(t, filepath.Join(to, "made/dir/file"))), "made\n")
	d.Must("cp", id+":/etc/group", to)
	env.Equal(t, "a changed file", string(env.Read(t, filepath.Join(to, "group"))), "changed\n")
	d.Must("cp", id+":/etc/passwd", to)
	env.Contain(t, "the image's file", string(env.Read(t, filepath.Join(to, "passwd"))), "app:x:1000")
}

func TestCopyIn(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	from := t.TempDir()
	env.Put(t, filepath.Join(from, "file"), "from the host\n", 0o644, 0)
	env.Put(t, filepath.Join(from, "tool"), "#!/bin/sh\necho tool runs\n", 0o755, 0)
	d.Must("cp", from, id+":/in")
	env.Equal(t, "content", sh(d, id, "cat /in/file"), "from the host")
	env.Equal(t, "program", sh(d, id, "/in/tool"), "tool runs")
	d.Must("cp", filepath.Join(from, "file"), id+":/etc/passwd-new")
	env.Equal(t, "over the image", sh(d, id, "cat /etc/passwd-new"), "from the host")
	// And back, which shows that docker and the jail mean the same file.
	d.Must("cp", id+":/in/file", filepath.Join(from, "back"))
	env.Equal(t, "back", string(env.Read(t, filepath.Join(from, "back"))), "from the host\n")
}

func TestCopyBeforeStart(t *testing.T) {
	d := d(t)
	id := d.Created(jail, engine.Busybox, "cat", "/early/file")
	from := t.TempDir()
	env.Put(t, filepath.Join(from, "file"), "early bird\n", 0o644, 0)
	d.Must("cp", from, id+":/early")
	env.Equal(t, "output", d.Must("start", "-a", id), "early bird")
}

func TestExport(t *testing.T) {
	d := d(t)
	id := startJail(d, engine.Busybox, "sh", "-c", "echo made > /made; rm /etc/image-secret; touch /ready; sleep 3600")
	env.Eventually(d, "files", func() bool { return d.Docker("exec", id, "test", "-e", "/ready").Code == 0 })
	out := filepath.Join(t.TempDir(), "export.tar")
	d.Must("export", "-o", out, id)
	f, err := os.Open(out)
	env.Check(t, err)
	defer f.Close()
	files := map[string]string{}
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		env.Check(t, err)
		var b bytes.Buffer
		if h.Size < 1000 {
			if _, err := io.Copy(&b, tr); err != nil {
				t.Fatal(err)
			}
		}
		files[strings.TrimPrefix(h.Name, "./")] = b.String()
	}
	env.Equal(t, "a new file", files["made"], "made\n")
	env.Contain(t, "the image's file", files["etc/passwd"], "app:x:1000")
	if _, there := files["etc/image-secret"]; there {
		t.Error("a file that the jail removed is in its export")
	}
}
