package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func init() {
	engine.Policies["agentjail-roots-nobody"] = "[binds]\nroot = \"nobody\"\n"
	engine.Policies["agentjail-roots-allow"] = "[binds]\nroot = \"allow\"\n"
}

// TestRootsDirectory: a directory of the host's root is not given writable, and shows nothing that only root may read;
// policy has a short way for hosts where root works in directories of its own.
func TestRootsDirectory(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	dir := directory(t, 0)
	env.Put(t, filepath.Join(dir, "private"), "root's own\n", 0o600, 0)
	env.Check(t, os.Mkdir(filepath.Join(dir, "open"), 0o755))
	env.Check(t, os.Chmod(filepath.Join(dir, "open"), 0o1777))
	for _, from := range []string{dir, filepath.Join(dir, "hello")} {
		r := runJail(d, "-v", from+":/w", engine.Busybox, "true")
		if r.Code == 0 || !strings.Contains(r.Stderr, "it belongs to the host's root") || !strings.Contains(r.Stderr, "binds.root") {
			t.Errorf("%s: %s", from, r)
		}
	}
	const script = "cat /w/hello /w/private 2>/dev/null; stat -c %u /w; touch /w/new 2>/dev/null; touch /w/open/new 2>/dev/null; ls /w /w/open | grep -c new"
	env.Equal(t, "read-only", sh(d, sleeper(d, "-v", dir+":/w:ro"), script+"; true"), "hello from the host\n65534\n0")
	with := func(runtime string) string {
		return d.Must("run", "--rm", "--runtime="+runtime, "-v", dir+":/w", engine.Busybox, "sh", "-c", script)
	}
	env.Equal(t, "as user 65534", with("agentjail-roots-nobody"), "hello from the host\n65534\n1")
	if got, _ := owner(t, filepath.Join(dir, "open/new")); strings.HasPrefix(got, "0:") {
		t.Errorf("a file of user 65534 belongs to %s", got)
	}
	env.Equal(t, "as root", with("agentjail-roots-allow"), "hello from the host\nroot's own\n0\n2")
	got, _ := owner(t, filepath.Join(dir, "new"))
	env.Equal(t, "a file of root's", got, "0:0")
}

// TestOthersFiles: the files of other owners in a person's directory, by owner, group and mode.
func TestOthersFiles(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	engine.Others(t, dir)
	r := runJail(d, "-u", "1000:1000", "-v", dir+":/w", "-w", "/w", engine.Busybox, "sh", "-c", engine.OthersScript)
	if r.Code != 0 {
		t.Fatal(r)
	}
	engine.CheckOthers(t, r.Stdout, "direct")
}

// TestPlacesWithKeysAreRefused: what holds a user's keys, units or start-up files is refused, and so is what holds that.
func TestPlacesWithKeysAreRefused(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	ssh, units := filepath.Join(dir, ".ssh"), filepath.Join(dir, ".config/systemd/user")
	for _, p := range []string{ssh, filepath.Join(dir, ".config"), filepath.Join(dir, ".config/systemd"), units} {
		env.Check(t, os.Mkdir(p, 0o755))
		env.Check(t, os.Lchown(p, 1000, 1000))
	}
	for option, why := range map[string]string{ssh + ":/w": "keys", ssh + ":/w:ro": "keys", units + ":/w": "service manager"} {
		if r := runJail(d, "-v", option, engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, why) {
			t.Errorf("%s: %s", option, r)
		}
	}
	mustRunJail(d, "-v", units+":/w:ro", engine.Busybox, "true")
}

// TestEngineStorageByLayers: an engine's storage is known by the layers of the root, and a directory beside them is
// refused, with any owner.
func TestEngineStorageByLayers(t *testing.T) {
	base, path := byItself(t)
	storage := filepath.Join(base, "own-place")
	snapshots := filepath.Join(storage, "io.containerd.snapshotter.v1.overlayfs/snapshots")
	beside := filepath.Join(storage, "io.containerd.metadata.v1.bolt")
	env.Check(t, os.MkdirAll(beside, 0o755))
	env.Check(t, os.Lchown(beside, 1000, 1000))
	b := engine.NewBundle(t, base)
	for _, dir := range []string{snapshots + "/1", snapshots + "/2/fs", snapshots + "/2/work"} {
		env.Check(t, os.MkdirAll(dir, 0o755))
	}
	env.Check(t, errors.Join(os.Rename(b.Rootfs, snapshots+"/1/fs"), os.Mkdir(b.Rootfs, 0o755)))
	if err := unix.Mount("engine", b.Rootfs, "overlay", 0, "lowerdir="+snapshots+"/1/fs,upperdir="+snapshots+"/2/fs,workdir="+snapshots+"/2/work"); err != nil {
		t.Skip("no overlay here:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(b.Rootfs, unix.MNT_DETACH) })
	b.Mount(beside, "/w")
	b.Spec.Process.Args = []string{"touch", "/w/made"}
	out, err := b.Run(t, engine.Caller{Path: path, Args: []string{"--root", filepath.Join(base, "state")}})
	if err == nil || !strings.Contains(err.Error(), "keeps its containers in "+storage) {
		t.Errorf("%v: %s", err, out)
	}
}
