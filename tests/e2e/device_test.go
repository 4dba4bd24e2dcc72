package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestDeviceSources: a device that every jail has, as the source of a mount, works there, under whatever name the host has it: so the null
// device hides a file. Another device is refused, in place of a file that no process could open.
func TestDeviceSources(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	dir := directory(t, 1000)
	env.Put(t, filepath.Join(dir, ".env"), "KEY=1\n", 0o644, 1000)
	env.Check(t, os.Symlink("/dev/null", filepath.Join(dir, "link")))
	env.Check(t, unix.Mknod(filepath.Join(dir, "node"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	for _, source := range []string{"/dev/null", filepath.Join(dir, "link"), filepath.Join(dir, "node")} {
		for _, option := range []string{"", ":ro"} {
			out := mustRunJail(d, "-v", dir+":/app", "-v", source+":/app/.env"+option, "-v", source+":/etc/alone"+option, engine.Busybox, "sh", "-c",
				"for f in /app/.env /etc/alone; do test -c $f && cat $f && echo x >$f && echo hidden; done")
			env.Equal(t, source+option, strings.TrimSpace(out), "hidden\nhidden")
		}
	}
	if text := string(env.Read(t, filepath.Join(dir, ".env"))); text != "KEY=1\n" {
		t.Errorf("the host's file: %q", text)
	}
	id := sleeper(d, "-v", "/dev/zero:/z", "-v", "/dev/urandom:/u:ro", "-v", "/dev/random:/r", "-v", "/dev/full:/f", "-v", "/dev/tty:/t")
	for at, number := range map[string]string{"/z": "1 5", "/u": "1 9", "/r": "1 8", "/f": "1 7", "/t": "5 0"} {
		env.Equal(t, at, strings.TrimSpace(sh(d, id, "stat -c '%t %T' "+at)), number)
	}
	env.Equal(t, "their bytes", strings.TrimSpace(sh(d, id, "head -c 4 /z | wc -c; head -c 4 /u | wc -c; head -c 4 /r | wc -c; echo 2>/dev/null >/f || echo full")), "4\n4\n4\nfull")
	if out, code := ownVerb(t, "inspect", id); code != 0 || strings.Contains(out, "BROKEN") {
		t.Errorf("inspect: %d\n%s", code, out)
	}
	for name, number := range map[string][2]uint32{"mem": {1, 1}, "kmsg": {1, 11}, "console": {5, 1}, "ptmx": {5, 2}, "tty1": {4, 1}, "fuse": {10, 229}} {
		node := filepath.Join(dir, name)
		env.Check(t, unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(number[0], number[1]))))
		if r := runJail(d, "-v", node+":/d", engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, "is not a file or directory (remedy: to hide a file") {
			t.Errorf("%s: %s", name, r)
		}
	}
	block := filepath.Join(dir, "block")
	env.Check(t, unix.Mknod(block, unix.S_IFBLK|0o666, int(unix.Mkdev(1, 3))))
	if r := runJail(d, "-v", block+":/d", engine.Busybox, "true"); r.Code == 0 {
		t.Errorf("a block device 1:3: %s", r)
	}
}
