package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestMountedDir is about the directory of a project: for every owner, the jail's user can work in it, and what it
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
			env.Equal(t, "output", mustRunJail(d, args...), "hello from the host\nmine")
			env.Equal(t, "hello", string(env.Read(t, filepath.Join(dir, "hello"))), "hello from the host\nmore\n")
			for _, name := range []string{"hello", "hard", "a", "a/b", "a/moved", "a/link"} {
				got, _ := owner(t, filepath.Join(dir, name))
				env.Equal(t, "owner of "+name, got, c.want)
			}
			_, mode := owner(t, filepath.Join(dir, "a/moved"))
			env.Equal(t, "mode of a/moved", mode, 0o700)
		})
	}
}

func TestMountedFile(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	file := filepath.Join(dir, "hello")
	env.Equal(t, "output", mustRunJail(d, "-v", file+":/etc/one", engine.Busybox, "sh", "-c", "cat /etc/one; echo changed > /etc/one; stat -c %u /etc/one"), "hello from the host\n0")
	env.Equal(t, "content", string(env.Read(t, file)), "changed\n")
	got, _ := owner(t, file)
	env.Equal(t, "owner", got, "1000:1000")
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
			env.Equal(t, "output", mustRunJail(d, append(option(dir), engine.Busybox, "sh", "-c", "cat /work/hello; echo x > /work/hello; rm /work/hello; touch /work/new; true")...), "hello from the host")
			env.Equal(t, "content", string(env.Read(t, filepath.Join(dir, "hello"))), "hello from the host\n")
			if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
				t.Error("a file was made in a read-only directory")
			}
		})
	}
}

func TestMountBindSyntax(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	mustRunJail(d, "--mount", "type=bind,source="+dir+",target=/work", engine.Busybox, "sh", "-c", "echo x > /work/new")
	got, _ := owner(t, filepath.Join(dir, "new"))
	env.Equal(t, "owner", got, "1000:1000")
}

// TestMountFlags: whatever lies in a directory, a set-id program or a device node, has no effect in the jail.
func TestMountFlags(t *testing.T) {
	d := d(t)
	for _, line := range []string{mustRunJail(d, "-v", directory(t, 1000)+":/work", engine.Busybox, "sh", "-c", "grep ' /work ' /proc/self/mountinfo")} {
		env.Contain(t, "mount", line, "nosuid")
		env.Contain(t, "mount", line, "nodev")
	}
}

func TestNamedVolume(t *testing.T) {
	d := d(t)
	const vol = "e2e-named"
	d.Must("volume", "create", vol)
	t.Cleanup(func() { d.Docker("volume", "rm", "-f", vol) })
	mustRunJail(d, "-v", vol+":/data", engine.Busybox, "sh", "-c", "echo kept > /data/file; mkdir /data/dir")
	env.Equal(t, "in another jail", mustRunJail(d, "-v", vol+":/elsewhere", engine.Busybox, "sh", "-c", "cat /elsewhere/file; rmdir /elsewhere/dir; ls /elsewhere"), "kept\nfile")
	env.Equal(t, "read-only", mustRunJail(d, "-v", vol+":/data:ro", engine.Busybox, "sh", "-c", "cat /data/file; touch /data/x 2>/dev/null || echo ro"), "kept\nro")
}

// TestVolumeFromImage: a new volume gets what the image has at its place, with its owners.
func TestVolumeFromImage(t *testing.T) {
	d := d(t)
	const vol = "e2e-from-image"
	t.Cleanup(func() { d.Docker("volume", "rm", "-f", vol) })
	env.Equal(t, "output", mustRunJail(d, "-v", vol+":/etc", engine.Busybox, "sh", "-c", "head -n 1 /etc/passwd; echo x > /etc/new; cat /etc/new"), "root:x:0:0:root:/root:/bin/sh\nx")
	env.Equal(t, "again", mustRunJail(d, "-v", vol+":/etc", engine.Busybox, "cat", "/etc/new"), "x")
}

// TestVolumeAsUser: a volume whose place in the image belongs to the user is that user's to write.
func TestVolumeAsUser(t *testing.T) {
	d := d(t)
	const vol = "e2e-as-user"
	t.Cleanup(func() { d.Docker("volume", "rm", "-f", vol) })
	env.Equal(t, "output", mustRunJail(d, "-v", vol+":/home/app", engine.NonRoot, "sh", "-c", "echo x > new && cat new"), "entry runs as 1000:1000 in /home/app\nx")
}

// newVolume makes a volume and returns its directory on the host.
func newVolume(d *engine.T, name string, options ...string) string {
	d.Helper()
	d.Must(append(append([]string{"volume", "create"}, options...), name)...)
	d.Cleanup(func() { d.Docker("volume", "rm", "-f", name) })
	return d.Must("volume", "inspect", "-f", "{{.Mountpoint}}", name)
}

// TestVolumeIDs: in an engine's volume each id is itself, whatever the owner of its top: a jail's
// user sees, reads and writes what it does under runc without capabilities, and the disk is the
// same afterwards.
func TestVolumeIDs(t *testing.T) {
	for name, u := range engine.VolumeUsers {
		t.Run(name, func(t *testing.T) {
			d := d(t)
			in := func(runtime string, more ...string) string {
				args := append([]string{"run", "--rm", "--network=none", "--runtime=" + runtime}, append(u.Options, more...)...)
				var dirs []string
				for i, top := range engine.VolumeTops {
					vol := fmt.Sprintf("e2e-ids-%d-%s-%s", i, strings.ReplaceAll(name, " ", "-"), runtime)
					dirs = append(dirs, newVolume(d, vol))
					engine.FillVolume(t, dirs[i], engine.VolumeEntries(top.UID, top.GID, top.Mode))
					args = append(args, "-v", fmt.Sprintf("%s:/v/%d%s", vol, i, u.Suffix))
				}
				r := d.Docker(append(args, engine.Busybox, "sh", "-c", engine.VolumeProbe)...)
				for _, dir := range dirs {
					r.Stdout += "on the disk:\n" + engine.ListVolume(t, dir)
				}
				return r.Stdout + r.Stderr
			}
			env.Equal(t, "what it sees and leaves", in(engine.Name), in("runc", u.Control...))
		})
	}
}

// TestNewVolume: a new volume that only root could write to is the first process's user's, on the
// disk and for good; what that user and container root write later stays theirs.
func TestNewVolume(t *testing.T) {
	d := d(t)
	dir := newVolume(d, "e2e-new")
	in := func(runtime, user, script string) string {
		d.Helper()
		return d.Must("run", "--rm", "--network=none", "--runtime="+runtime, "-u", user, "-v", "e2e-new:/v", "-w", "/v", engine.Busybox, "sh", "-c", script)
	}
	env.Equal(t, "read-only", mustRunJail(d, "-u", "999:998", "-v", "e2e-new:/v:ro", engine.Busybox, "stat", "-c", "%u:%g", "/v"), "0:0")
	rooted := sleeper(d, "-v", "e2e-new:/v")
	env.Equal(t, "owner", in(engine.Name, "999:998", "stat -c '%u:%g' .; mkdir -m 700 db; echo one >db/f; cat db/f"), "999:998\none")
	on, _ := owner(t, dir)
	env.Equal(t, "owner of the top on the disk", on, "999:998")
	env.Equal(t, "a later jail", in(engine.Name, "999:998", "echo two >>db/f; cat db/f"), "one\ntwo")
	env.Equal(t, "runc", in("runc", "999:998", "cat db/f"), "one\ntwo")
	sh(d, rooted, "echo root >/v/roots; chmod 600 /v/roots; cat /v/db/f 2>/dev/null; true")
	on, _ = owner(t, filepath.Join(dir, "roots"))
	env.Equal(t, "owner of root's file on the disk", on, "0:0")
	env.Equal(t, "root's file", in(engine.Name, "999:998", "cat roots 2>/dev/null || echo denied"), "denied")
	env.Equal(t, "a third user", in(engine.Name, "1000:1000", "ls; cat db/f 2>/dev/null || touch x 2>/dev/null || echo denied"), "db\nroots\ndenied")
	env.Equal(t, "chmod, as initdb does", in(engine.Name, "999:998", "chmod 700 . && stat -c %a ."), "700")
}

// TestVolumeOfImage: a volume that an image names is its user's, whatever the owner of its place in
// the image, and stays so for a later jail.
func TestVolumeOfImage(t *testing.T) {
	d := d(t)
	for _, c := range []struct{ place, owner string }{{"/data", "0:0"}, {"/home/app", "1000:1000"}} {
		made := d.Created(engine.Busybox, "true")
		image := "e2e-volume" + strings.ReplaceAll(c.place, "/", "-")
		d.Must("commit", "--change", "VOLUME "+c.place, "--change", "USER 1000:1000", made, image)
		t.Cleanup(func() { d.Docker("rmi", "-f", image) })
		id := sleeper(d, image)
		env.Equal(t, c.place, sh(d, id, "cd "+c.place+"; echo one >f; chmod 600 f; stat -c '%u:%g' . f"), "1000:1000\n1000:1000")
		env.Equal(t, c.place+" for a later jail", mustRunJail(d, "--volumes-from", id, image, "cat", c.place+"/f"), "one")
		env.Equal(t, c.place+" for another user", mustRunJail(d, "--volumes-from", id, "-u", "999:998", image, "sh", "-c", "cat "+c.place+"/f 2>/dev/null || echo denied"), "denied")
	}
}

// TestSwarmVolume: a service's tasks have their volume as containers have.
func TestSwarmVolume(t *testing.T) {
	needAgentjail(t)
	under := env.Get(t, engine.UnderTest)
	e := engine.StartFor(t, engine.Options{Runtimes: map[string]engine.Runtime{engine.Name: {Path: under}}, Default: engine.Name})
	d := e.For(t)
	d.Must("swarm", "init", "--advertise-addr", "127.0.0.1", "--listen-addr", "127.0.0.1:0")
	dir := newVolume(d, "e2e-swarm")
	for i, want := range []string{"999:998\none", "999:998\none\none"} {
		name := fmt.Sprint("task", i)
		d.Must("service", "create", "--detach", "--name", name, "--restart-condition=none", "--user=999:998", "--mount", "type=volume,source=e2e-swarm,target=/v",
			engine.Busybox, "sh", "-c", "umask 77; stat -c %u:%g /v; echo one >>/v/f; cat /v/f")
		if !env.Poll(env.Patience, func() bool {
			return strings.HasPrefix(d.Must("service", "ps", "--format", "{{.CurrentState}}", name), "Complete")
		}) {
			t.Fatal(d.Must("service", "ps", "--no-trunc", name))
		}
		env.Equal(t, name, strings.TrimSpace(d.Must("service", "logs", "--raw", name)), want)
		d.Must("service", "rm", name)
	}
	on, mode := owner(t, filepath.Join(dir, "f"))
	env.Equal(t, "owner on the disk", on, "999:998")
	env.Equal(t, "mode on the disk", mode, 0o600)
}

// TestVolumeOfDirectory: a volume that the local driver makes of a person's directory is that
// directory.
func TestVolumeOfDirectory(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	newVolume(d, "e2e-disguise", "-o", "type=none", "-o", "o=bind", "-o", "device="+dir)
	env.Equal(t, "output", mustRunJail(d, "-u", "4321:4321", "-v", "e2e-disguise:/v", engine.Busybox, "sh", "-c", "cat /v/hello; echo x >/v/new; stat -c %u:%g /v/new"), "hello from the host\n4321:4321")
	on, _ := owner(t, filepath.Join(dir, "new"))
	env.Equal(t, "owner on the host", on, "1000:1000")
	env.Check(t, os.Lchown(dir, 0, 0))
	env.Check(t, os.Chmod(dir, 0o755))
	if r := runJail(d, "-u", "4321:4321", "-v", "e2e-disguise:/v", engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, "it belongs to the host's root") {
		t.Errorf("root's directory: %s", r)
	}
	on, _ = owner(t, dir)
	env.Equal(t, "owner of root's directory", on, "0:0")
}

// TestSystemLink: a program of the host's can be mounted read-only by a name that a package made
// a link, and not writable.
func TestSystemLink(t *testing.T) {
	const name = "/usr/bin/awk"
	if _, err := os.Readlink(name); err != nil {
		t.Skip(err)
	}
	d := d(t)
	env.Equal(t, "output", mustRunJail(d, "-v", name+":/x:ro", engine.Busybox, "sh", "-c", "[ -s /x ] && echo there; (echo >>/x) 2>/dev/null || echo read-only"), "there\nread-only")
	if r := runJail(d, "-v", name+":/x", engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, "refused") {
		t.Errorf("writable: %s", r)
	}
}

func TestAnonymousVolume(t *testing.T) {
	d := d(t)
	env.Equal(t, "output", mustRunJail(d, "-v", "/data", engine.Busybox, "sh", "-c", "echo x > /data/f; cat /data/f"), "x")
	env.Equal(t, "of an image with a user", mustRunJail(d, "-v", "/srv/data", engine.NonRoot, "sh", "-c", "echo x > /srv/data/f; stat -c %u:%g /srv/data/f"), "entry runs as 1000:1000 in /home/app\n1000:1000")
}

func TestNestedMounts(t *testing.T) {
	const vol = "e2e-nested"
	outer, inner := directory(t, 1000), directory(t, 1001)
	env.Put(t, filepath.Join(inner, "inner"), "inner\n", 0o644, 1001)
	d := d(t)
	t.Cleanup(func() { d.Docker("volume", "rm", "-f", vol) })
	got := mustRunJail(d, "-v", outer+":/w", "-v", inner+":/w/sub", "-v", vol+":/w/cache/deep", "--tmpfs", "/w/tmp", engine.Busybox, "sh", "-c",
		"cat /w/hello /w/sub/inner; echo a > /w/a; echo b > /w/sub/b; echo c > /w/cache/deep/c; echo t > /w/tmp/t; cat /w/tmp/t")
	env.Equal(t, "output", got, "hello from the host\ninner\nt")
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
	env.Equal(t, "output", mustRunJail(d, "-v", directory(t, 1000)+":/home", engine.Busybox, "ls", "/home"), "hello")
}

// TestTwoJailsOneDir: two jails, with ids of their own on the host, work in the same directory.
func TestTwoJailsOneDir(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	a, b := sleeper(d, "-v", dir+":/w"), sleeper(d, "-v", dir+":/w")
	sh(d, a, "echo from-a > /w/shared")
	env.Equal(t, "seen by the other", sh(d, b, "cat /w/shared; echo from-b >> /w/shared"), "from-a")
	env.Equal(t, "seen by the first", sh(d, a, "cat /w/shared"), "from-a\nfrom-b")
}
