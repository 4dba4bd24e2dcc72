package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"agentjail.dev/tests/engine"
)

// TestMountedDir is about the directory of a project: whoever it belongs to, the jail's user can work in it, and what it
// makes there belongs to the directory's owner.
func TestMountedDir(t *testing.T) {
	for _, c := range []struct {
		name    string
		uid     int
		options []string
		want    string // owner of new files on the host
	}{
		{"of uid 1000", 1000, nil, "1000:1000"},
		{"of uid 1000 as app", 1000, []string{"-u", "app"}, "1000:1000"},
		{"of uid 1000 as 4321", 1000, []string{"-u", "4321:4321"}, "1000:1000"},
		{"of uid 5000", 5000, nil, "5000:5000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := d(t)
			dir := directory(t, c.uid)
			args := append(c.options, "-v", dir+":/work", "-w", "/work", engine.Busybox, "sh", "-c",
				`set -e
				cat hello; echo more >> hello
				mkdir -p a/b; echo new > a/b/new; ln -s b/new a/link; ln hello hard; mv a/b/new a/moved; chmod 700 a/moved; touch -d 2001-01-01 a/moved
				[ "$(stat -c %u:%g hello)" = "$(id -u):$(id -g)" ] && [ "$(stat -c %u:%g a/moved)" = "$(id -u):$(id -g)" ] && echo mine`)
			eq(t, "output", mustRun(d, args...), "hello from the host\nmine")
			eq(t, "hello", content(t, filepath.Join(dir, "hello")), "hello from the host\nmore\n")
			for _, name := range []string{"hello", "hard", "a", "a/b", "a/moved", "a/link"} {
				got, _ := owner(t, filepath.Join(dir, name))
				eq(t, "owner of "+name, got, c.want)
			}
			_, mode := owner(t, filepath.Join(dir, "a/moved"))
			eq(t, "mode of a/moved", mode, 0o700)
		})
	}
}

func TestMountedFile(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	file := filepath.Join(dir, "hello")
	eq(t, "output", mustRun(d, "-v", file+":/etc/one", engine.Busybox, "sh", "-c", "cat /etc/one; echo changed > /etc/one; stat -c %u /etc/one"), "hello from the host\n0")
	eq(t, "content", content(t, file), "changed\n")
	got, _ := owner(t, file)
	eq(t, "owner", got, "1000:1000")
}

func TestMountReadOnly(t *testing.T) {
	for name, option := range map[string]func(string) []string{
		"-v :ro": func(dir string) []string { return []string{"-v", dir + ":/work:ro"} },
		"--mount": func(dir string) []string {
			return []string{"--mount", "type=bind,source=" + dir + ",target=/work,readonly"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := d(t)
			dir := directory(t, 1000)
			eq(t, "output", mustRun(d, append(option(dir), engine.Busybox, "sh", "-c", "cat /work/hello; echo x > /work/hello; rm /work/hello; touch /work/new; true")...), "hello from the host")
			eq(t, "content", content(t, filepath.Join(dir, "hello")), "hello from the host\n")
			if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
				t.Error("a file was made in a read-only directory")
			}
		})
	}
}

func TestMountBindSyntax(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	mustRun(d, "--mount", "type=bind,source="+dir+",target=/work", engine.Busybox, "sh", "-c", "echo x > /work/new")
	got, _ := owner(t, filepath.Join(dir, "new"))
	eq(t, "owner", got, "1000:1000")
}

// TestMountFlags: whatever lies in a directory, a set-id program or a device node, has no effect in the jail.
func TestMountFlags(t *testing.T) {
	d := d(t)
	for _, line := range []string{mustRun(d, "-v", directory(t, 1000)+":/work", engine.Busybox, "sh", "-c", "grep ' /work ' /proc/self/mountinfo")} {
		has(t, "mount", line, "nosuid")
		has(t, "mount", line, "nodev")
	}
}

func TestNamedVolume(t *testing.T) {
	d := d(t)
	const vol = "e2e-named"
	d.Must("volume", "create", vol)
	t.Cleanup(func() { d.Docker("volume", "rm", "-f", vol) })
	mustRun(d, "-v", vol+":/data", engine.Busybox, "sh", "-c", "echo kept > /data/file; mkdir /data/dir")
	eq(t, "in another jail", mustRun(d, "-v", vol+":/elsewhere", engine.Busybox, "sh", "-c", "cat /elsewhere/file; rmdir /elsewhere/dir; ls /elsewhere"), "kept\nfile")
	eq(t, "read-only", mustRun(d, "-v", vol+":/data:ro", engine.Busybox, "sh", "-c", "cat /data/file; touch /data/x 2>/dev/null || echo ro"), "kept\nro")
}

// TestVolumeFromImage: a new volume gets what the image has at its place, with its owners.
func TestVolumeFromImage(t *testing.T) {
	d := d(t)
	const vol = "e2e-from-image"
	t.Cleanup(func() { d.Docker("volume", "rm", "-f", vol) })
	eq(t, "output", mustRun(d, "-v", vol+":/etc", engine.Busybox, "sh", "-c", "head -n 1 /etc/passwd; echo x > /etc/new; cat /etc/new"), "root:x:0:0:root:/root:/bin/sh\nx")
	eq(t, "again", mustRun(d, "-v", vol+":/etc", engine.Busybox, "cat", "/etc/new"), "x")
}

// TestVolumeAsUser: a volume whose place in the image belongs to the user is that user's to write.
func TestVolumeAsUser(t *testing.T) {
	d := d(t)
	const vol = "e2e-as-user"
	t.Cleanup(func() { d.Docker("volume", "rm", "-f", vol) })
	eq(t, "output", mustRun(d, "-v", vol+":/home/app", engine.NonRoot, "sh", "-c", "echo x > new && cat new"), "entry runs as 1000:1000 in /home/app\nx")
}

func TestAnonymousVolume(t *testing.T) {
	eq(t, "output", mustRun(d(t), "-v", "/data", engine.Busybox, "sh", "-c", "echo x > /data/f; cat /data/f"), "x")
}

func TestNestedMounts(t *testing.T) {
	const vol = "e2e-nested"
	outer, inner := directory(t, 1000), directory(t, 1001)
	put(t, filepath.Join(inner, "inner"), "inner\n", 0o644, 1001)
	d := d(t)
	t.Cleanup(func() { d.Docker("volume", "rm", "-f", vol) })
	got := mustRun(d, "-v", outer+":/w", "-v", inner+":/w/sub", "-v", vol+":/w/cache/deep", "--tmpfs", "/w/tmp", engine.Busybox, "sh", "-c",
		"cat /w/hello /w/sub/inner; echo a > /w/a; echo b > /w/sub/b; echo c > /w/cache/deep/c; echo t > /w/tmp/t; cat /w/tmp/t")
	eq(t, "output", got, "hello from the host\ninner\nt")
	for path, want := range map[string]string{
		filepath.Join(outer, "a"):          "1000:1000",
		filepath.Join(outer, "sub"):        "1000:1000",
		filepath.Join(outer, "cache"):      "1000:1000",
		filepath.Join(outer, "cache/deep"): "1000:1000",
		filepath.Join(inner, "b"):          "1001:1001",
	} {
		if got, _ := owner(t, path); got != want {
			t.Errorf("owner of %s: got %s, want %s", path, got, want)
		}
	}
	// What lay on the inner mounts is not in the outer directory.
	for _, name := range []string{"sub/b", "cache/deep/c", "tmp/t"} {
		if _, err := os.Lstat(filepath.Join(outer, name)); err == nil {
			t.Errorf("%s went through a mount into the outer directory", name)
		}
	}
}

// TestDirOverImageDir: the image's files below the place of a mount are hidden by it.
func TestDirOverImageDir(t *testing.T) {
	d := d(t)
	eq(t, "output", mustRun(d, "-v", directory(t, 1000)+":/home", engine.Busybox, "ls", "/home"), "hello")
}

// TestTwoJailsOneDir: two jails, with ids of their own on the host, work in the same directory.
func TestTwoJailsOneDir(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	a, b := sleeper(d, "-v", dir+":/w"), sleeper(d, "-v", dir+":/w")
	sh(d, a, "echo from-a > /w/shared")
	eq(t, "seen by the other", sh(d, b, "cat /w/shared; echo from-b >> /w/shared"), "from-a")
	eq(t, "seen by the first", sh(d, a, "cat /w/shared"), "from-a\nfrom-b")
}
