package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestRefusedMounts: places of the host that no jail gets, however they are named.
func TestRefusedMounts(t *testing.T) {
	shared := docker.For(t)
	dir := directory(t, 1000)
	link := func(name, to string) string {
		p := filepath.Join(dir, name)
		env.Check(t, os.Symlink(to, p))
		return p
	}
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	env.Check(t, err)
	t.Cleanup(func() { l.Close() })
	for _, c := range []struct{ name, source string }{
		{"/", "/"},
		{"/etc", "/etc"},
		{"/etc/shadow", "/etc/shadow"},
		{"/proc", "/proc"},
		{"/proc/sys", "/proc/sys"},
		{"/sys", "/sys"},
		{"/sys/fs/cgroup", "/sys/fs/cgroup"},
		{"/dev", "/dev"},
		{"/dev/shm", "/dev/shm"},
		{"/boot", "/boot"},
		{"/root", "/root"},
		{"/run", "/run"},
		{"/var/run", "/var/run"},
		{"/var", "/var"},
		{"/var/lib", "/var/lib"},
		{"engine's socket", shared.Socket()},
		{"engine's storage", filepath.Join(shared.Dir, "docker")},
		{"engine's layers", filepath.Join(shared.Dir, "docker/overlay2")},
		{"above the engine's storage", shared.Dir},
		{"a socket", socket},
		{"dots", "/tmp/../etc"},
		{"link to /", link("root", "/")},
		{"link to /etc", link("etc", "/etc")},
		{"link to a file", link("shadow", "/etc/shadow")},
		{"link to a device", link("device", "/dev/vda")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := os.Stat(c.source); err != nil {
				t.Skip("not on this machine:", err)
			}
			d := d(t)
			r := runJail(d, "-v", c.source+":/mounted", engine.Busybox, "sh", "-c", "ls /mounted; echo started")
			if r.Code == 0 || strings.Contains(r.Stdout, "started") {
				t.Errorf("it starts: %s", r)
			} else if !strings.Contains(r.Stderr, "refused") {
				t.Errorf("the reason is not reported: %s", r)
			}
		})
	}
}

// TestLinkMadeInside: a jail leaves a symbolic link in its directory, and the host's user mounts what seems to be a directory
// of the project.
func TestLinkMadeInside(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	mustRunJail(d, "-v", dir+":/w", engine.Busybox, "sh", "-c", "ln -s /etc /w/sub; mkdir /w/real; ln -s ../../.. /w/real/up")
	for _, sub := range []string{"sub", "real/up"} {
		r := runJail(d, "-v", filepath.Join(dir, sub)+":/sub", engine.Busybox, "ls", "/sub")
		if r.Code == 0 {
			t.Errorf("a link to %s is followed: %s", sub, r)
		}
	}
}

// TestMountTargetLinks: symbolic links in the image do not lead a mount out of the jail, or over what the jail needs.
func TestMountTargetLinks(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	for _, target := range []string{"/../../w", "/proc", "/proc/self", "/sys", "/proc/sys/kernel", "/dev/null"} {
		r := runJail(d, "-v", dir+":"+target, engine.Busybox, "sh", "-c", "cat /proc/self/status | head -n 1; ls /w")
		if r.Code == 0 && target != "/../../w" {
			t.Errorf("a directory on %s: %s", target, r)
		}
	}
}
