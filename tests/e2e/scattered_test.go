package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestFilesOnSeparateFileSystems: everything that a call names may be on a file system of its own. The delegate works without the mounts of
// other containers, but not without these.
func TestFilesOnSeparateFileSystems(t *testing.T) {
	base, path := byItself(t)
	mount := func(dir string) string {
		env.Check(t, os.MkdirAll(dir, 0o711))
		env.Check(t, unix.Mount("test", dir, "tmpfs", 0, "mode=711"))
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		return dir
	}
	at := func(name string) string { return mount(filepath.Join(mount(filepath.Join(base, "on", name)), "deep")) }
	b := engine.NewBundle(t, at("bundle"))
	state, logs, pids, work := at("state"), at("log"), at("pid"), at("work")
	env.Check(t, os.Symlink(pids, filepath.Join(base, "link")))
	env.Put(t, filepath.Join(work, "given"), "given", 0o644, 0)
	env.Check(t, os.Lchown(work, 1000, 1000))
	b.Mount(work, "/work")
	b.Spec.Process.Args = []string{"sh", "-c", "cat /work/given; sleep 3600"}
	c := engine.Caller{Path: path, Args: []string{"--root", state, "--log", filepath.Join(logs, "log"), "--debug"}}
	id := b.ID()
	t.Cleanup(func() { _, _, _ = b.Call(t, c, "delete", "--force", id) })
	if _, said, err := b.Call(t, c, "create", "--bundle", b.Dir, "--pid-file", filepath.Join(base, "link", "pid"), id); err != nil {
		t.Fatalf("create: %v: %s", err, said)
	}
	text := env.Read(t, filepath.Join(pids, "pid"))
	pid, err := strconv.Atoi(string(text))
	if err != nil || unix.Kill(pid, 0) != nil {
		t.Errorf("the pid file states %q: %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(state, id)); err != nil {
		t.Errorf("the delegate's record: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(logs, "log")); err != nil || !strings.Contains(string(text), "level") {
		t.Errorf("the log: %q, %v", text, err)
	}
	if _, said, err := b.Call(t, c, "start", id); err != nil {
		t.Fatalf("start: %v: %s", err, said)
	}
	if out, said, err := b.Call(t, c, "exec", id, "cat", "/work/given"); err != nil || out != "given" {
		t.Errorf("exec: %v: %q, %s", err, out, said)
	}
	for _, verb := range [][]string{{"kill", id, "KILL"}, {"delete", "--force", id}} {
		if _, said, err := b.Call(t, c, verb...); err != nil {
			t.Errorf("%s: %v: %s", verb[0], err, said)
		}
	}
}
