package e2e

import (
	"archive/tar"
	"bytes"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// archived makes an archive of entries, each with its own owner.
func archived(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		text := ""
		if h.Typeflag == tar.TypeReg {
			text = h.Name + "\n"
		}
		h.Size = int64(len(text))
		env.Check(t, w.WriteHeader(&h))
		_, _ = w.Write([]byte(text))
	}
	env.Check(t, w.Close())
	return &out
}

// copyIn unpacks an archive into a running container.
func copyIn(d *engine.T, archive *bytes.Buffer, to string) {
	d.Helper()
	if r := d.DockerIn(archive, "cp", "-", to); r.Code != 0 {
		d.Fatalf("copying in: %s", r)
	}
}

// TestCopiedIn: what is copied into a running container belongs, from the next exec on, to the user of the container that
// the archive names, under runc as in a jail.
func TestCopiedIn(t *testing.T) {
	secret := []tar.Header{
		{Typeflag: tar.TypeDir, Name: "dir", Mode: 0o700},
		{Typeflag: tar.TypeReg, Name: "dir/secret", Mode: 0o600},
		{Typeflag: tar.TypeDir, Name: "dir/theirs", Mode: 0o700, Uid: 1000, Gid: 1000},
		{Typeflag: tar.TypeReg, Name: "dir/theirs/file", Mode: 0o600, Uid: 1000, Gid: 1000},
		{Typeflag: tar.TypeReg, Name: "users", Mode: 0o600, Uid: 1000, Gid: 1000},
		{Typeflag: tar.TypeReg, Name: "roots", Mode: 0o600},
		{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "users", Uid: 1000, Gid: 1000},
		{Typeflag: tar.TypeLink, Name: "again", Linkname: "users", Mode: 0o600, Uid: 1000, Gid: 1000},
	}
	const look = "cd /tmp; for f in dir/secret dir/theirs/file users roots link again; do cat $f 2>/dev/null || echo denied; done; stat -c '%n %u:%g %a' users roots link again"
	for _, rt := range []string{"runc", engine.Name} {
		t.Run(rt, func(t *testing.T) {
			d := d(t)
			for user, want := range map[string]string{
				"0:0":       "dir/secret\n" + map[bool]string{true: "dir/theirs/file\nusers\nroots\nusers\nusers\n", false: "denied\ndenied\nroots\ndenied\ndenied\n"}[rt == "runc"],
				"1000:1000": "denied\ndenied\nusers\ndenied\nusers\nusers\n",
			} {
				id := d.Detached("--runtime="+rt, "-u", user, engine.Busybox, "sleep", "3600")
				copyIn(d, archived(t, secret...), id+":/tmp")
				owners := "users 1000:1000 600\nroots 0:0 600\nlink 1000:1000 777\nagain 1000:1000 600"
				env.Equal(t, "as "+user, sh(d, id, look), want+owners)
				// The same again: the new files have the sizes of the old ones, and the directory is there.
				copyIn(d, archived(t, secret...), id+":/tmp")
				env.Equal(t, "a second time as "+user, sh(d, id, look), want+owners)
			}
		})
	}
}

// TestCopiedInSetID: a program that is copied into a jail has no set-id bits there, whatever its owner.
func TestCopiedInSetID(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	id := sleeper(d)
	copyIn(d, archived(t, tar.Header{Typeflag: tar.TypeReg, Name: "s", Mode: 0o6755}), id+":/tmp")
	env.Equal(t, "mode and owner", sh(d, id, "stat -c '%a %u' /tmp/s"), "755 0")
}

// TestCopiedInSignal: a signal that has a server read its settings again finds them.
func TestCopiedInSignal(t *testing.T) {
	d := d(t)
	id := startJail(d, engine.Busybox, "sh", "-c", "trap 'cat /tmp/settings' HUP; echo ready; while :; do sleep 1; done")
	env.Eventually(d, "the trap", func() bool { return d.Must("logs", id) == "ready" })
	copyIn(d, archived(t, tar.Header{Typeflag: tar.TypeReg, Name: "settings", Mode: 0o600}), id+":/tmp")
	d.Must("kill", "-s", "HUP", id)
	env.Eventually(d, "the settings", func() bool { return engine.LastLine(d.Must("logs", id)) == "settings" })
}

// TestOwnDiff: `agentjail diff` lists of a jail what `docker diff` lists of a container that did the same, which lists every
// file of a jail's image.
func TestOwnDiff(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const script = "mkdir /made; echo x > /made/file; echo y >> /etc/group; rm /etc/passwd; rm -r /usr/local; ln -s a /link; sleep 3600"
	ready := func(id string) string {
		env.Eventually(d, "the changes", func() bool { return d.Docker("exec", id, "test", "-L", "/link").Code == 0 })
		return id
	}
	// What engine and delegate mount on is not the container's doing.
	ours := func(text string) string {
		var out []string
		for line := range strings.Lines(text) {
			if f := strings.Fields(line); len(f) == 2 && slices.ContainsFunc([]string{"/made", "/etc/group", "/etc/passwd", "/usr", "/link"}, func(p string) bool {
				return pathname.Within(f[1], p)
			}) {
				out = append(out, strings.Join(f, " "))
			}
		}
		slices.Sort(out)
		return strings.Join(out, "\n")
	}
	want := ours(d.Must("diff", ready(d.Detached("--runtime=runc", engine.Busybox, "sh", "-c", script))))
	id := ready(startJail(d, engine.Busybox, "sh", "-c", script))
	text, code := ownVerb(t, "diff", id)
	env.Equal(t, "status", code, 0)
	env.Equal(t, "changes", ours(text), want)
	env.Equal(t, "files of the image that are the same", strings.Count(text, " /bin/"), 0)
}

// TestOwnExport: the image that `agentjail export` makes of a jail has the owners that they had in the jail.
func TestOwnExport(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	id := startJail(d, "-u", "1000:1000", engine.Busybox, "sh", "-c", "echo mine > /tmp/made; sleep 3600")
	env.Eventually(d, "the file", func() bool { return d.Docker("exec", id, "test", "-s", "/tmp/made").Code == 0 })
	archive, code := ownVerb(t, "export", id)
	env.Equal(t, "status", code, 0)
	if r := d.DockerIn(strings.NewReader(archive), "import", "-", "e2e-exported"); r.Code != 0 {
		t.Fatalf("%s", r)
	}
	t.Cleanup(func() { d.Docker("rmi", "e2e-exported") })
	env.Equal(t, "owners", mustRunJail(d, "e2e-exported", "stat", "-c", "%u:%g %a", "/tmp/made", "/bin/busybox", "/home/app"), "1000:1000 644\n0:0 755\n1000:1000 755")
}
