package traits

import (
	"os"
	"path/filepath"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestOwnNameHasAnAddress: a jail finds its own name, whatever hosts file its image or its mounts have.
func TestOwnNameHasAnAddress(t *testing.T) {
	const had = "127.0.0.1 localhost\n"
	hosts := func(t *testing.T, dir string) string {
		t.Helper()
		env.Check(t, os.Chmod(dir, 0o755))
		path := filepath.Join(dir, "hosts")
		env.Check(t, os.WriteFile(path, []byte(had), 0o644))
		return path
	}
	readOnly := func(b *engine.Bundle, from, to string) {
		b.Mount(from, to)
		b.Spec.Mounts[len(b.Spec.Mounts)-1].Options = []string{"rbind", "ro"}
	}
	const added = had + "127.0.0.1\texploit\n"
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, b *engine.Bundle, dir string)
		want    string
	}{
		{"no file", func(*testing.T, *engine.Bundle, string) {}, "127.0.0.1\texploit\n"},
		{"the image's", func(t *testing.T, b *engine.Bundle, _ string) { hosts(t, filepath.Join(b.Rootfs, "etc")) }, added},
		{"the image's, read-only root", func(t *testing.T, b *engine.Bundle, _ string) {
			hosts(t, filepath.Join(b.Rootfs, "etc"))
			b.Spec.Root.Readonly = true
		}, added},
		{"a link of the image's", func(t *testing.T, b *engine.Bundle, _ string) {
			env.Check(t, os.Rename(hosts(t, filepath.Join(b.Rootfs, "etc")), filepath.Join(b.Rootfs, "names")))
			env.Check(t, os.Symlink("/names", filepath.Join(b.Rootfs, "etc/hosts")))
		}, added},
		{"with the name", func(t *testing.T, b *engine.Bundle, _ string) {
			env.Check(t, os.WriteFile(filepath.Join(b.Rootfs, "etc/hosts"), []byte("10.0.0.1 exploit\n"), 0o644))
		}, "10.0.0.1 exploit\n"},
		{"a mounted file", func(t *testing.T, b *engine.Bundle, dir string) { readOnly(b, hosts(t, dir), "/etc/hosts") }, added},
		{"a mounted directory", func(t *testing.T, b *engine.Bundle, dir string) { hosts(t, dir); readOnly(b, dir, "/etc") }, added},
		{"a link out of the root", func(t *testing.T, b *engine.Bundle, dir string) {
			path := hosts(t, dir)
			env.Check(t, os.RemoveAll(filepath.Join(b.Rootfs, "etc")))
			env.Check(t, os.Symlink(dir, filepath.Join(b.Rootfs, "etc")))
			t.Cleanup(func() { env.Equal(t, "the host's file", string(env.Read(t, path)), had) })
		}, ""},
		{"a private mounted file", func(t *testing.T, b *engine.Bundle, dir string) {
			path := hosts(t, dir)
			env.Check(t, os.Chmod(path, 0o600))
			readOnly(b, path, "/etc/hosts")
		}, ""},
	} {
		for _, s := range subjects(t) {
			t.Run(c.name+"/"+s.name, func(t *testing.T) {
				base := engine.TempDir(t, "/var/tmp", "agentjail-traits-")
				b := engine.NewBundle(t, base)
				env.Check(t, os.MkdirAll(filepath.Join(b.Rootfs, "etc"), 0o755))
				c.prepare(t, b, engine.TempDir(t, base, "mounted-"))
				b.Spec.Process.Args = []string{"sh", "-c", "cat /etc/hosts; true"}
				out, err := b.Run(t, s.under(t, b, ""))
				env.Check(t, err)
				env.Equal(t, "hosts", out, c.want)
			})
		}
	}
}
