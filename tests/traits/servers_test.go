package traits

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestServersOfOtherUsers: a server that works as other users ends at the start, with the reason; its reports, another user's, and programs of
// that name elsewhere run.
func TestServersOfOtherUsers(t *testing.T) {
	const refused = "operation not permitted: it works as other users, which root of a jail cannot become (remedy: "
	for _, c := range []struct {
		args   []string
		uid    uint32
		remedy string // "" runs
	}{
		{[]string{"php-fpm"}, 0, "-u www-data, or --runtime=agentjail-service)"},
		{[]string{"/usr/sbin/php-fpm8.2", "--nodaemonize"}, 0, "-u www-data"},
		{[]string{"docker-php-entrypoint", "php-fpm"}, 0, "-u www-data"},
		{[]string{"cron", "-f"}, 0, "--runtime=agentjail-service)"},
		{[]string{"/usr/sbin/sshd", "-D", "-e"}, 0, "docker exec"},
		{[]string{"php-fpm", "-t"}, 0, ""},
		{[]string{"php-fpm", "--version"}, 0, ""},
		{[]string{"docker-php-entrypoint", "php-fpm", "-v"}, 0, ""},
		{[]string{"php-fpm"}, 33, ""},
		{[]string{"/app/cron"}, 0, ""},
		{[]string{"sh", "-c", "echo ran", "cron"}, 0, ""},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			s := subjects(t)[0]
			b := engine.NewBundle(t, engine.TempDir(t, "/var/tmp", "agentjail-traits-"))
			for _, path := range []string{"usr/sbin/php-fpm", "usr/sbin/php-fpm8.2", "usr/sbin/cron", "usr/sbin/sshd", "app/cron", "usr/sbin/docker-php-entrypoint"} {
				env.Check(t, os.MkdirAll(filepath.Join(b.Rootfs, filepath.Dir(path)), 0o755))
				env.Check(t, os.WriteFile(filepath.Join(b.Rootfs, path), []byte("#!/bin/sh\necho ran\n"), 0o755))
			}
			b.Spec.Process.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
			b.Spec.Process.Args, b.Spec.Process.User.UID, b.Spec.Process.User.GID = c.args, c.uid, c.uid
			out, err := b.Run(t, s.under(t, b, ""))
			if c.remedy == "" && (err != nil || out != "ran\n") || c.remedy != "" && (err == nil || !strings.Contains(err.Error(), refused+c.remedy)) {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
}
