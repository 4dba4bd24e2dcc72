package shim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCheckStdio: a container's standard files are pipes of an engine's, or what
// policy names.
func TestCheckStdio(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: policies count only as root's")
	}
	dir, err := os.MkdirTemp("/root", "agentjail-logs-") // no other user can replace its files
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	state, logs, other := filepath.Join(dir, "state"), filepath.Join(dir, "logs"), filepath.Join(dir, "other")
	bundle := filepath.Join(state, "io.containerd.runtime.v2.task", "ns", "id")
	own, users := filepath.Join(other, "id"), filepath.Join(other, "users", "id")
	for _, d := range []string{bundle, logs, other, own, users} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{filepath.Join(state, "pipe"), filepath.Join(logs, "pipe"), filepath.Join(other, "pipe"), filepath.Join(own, "x-stdout"), filepath.Join(users, "x-stdout")} {
		if err := unix.Mkfifo(p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(users, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	program, loose := filepath.Join(dir, "logger"), filepath.Join(dir, "loose")
	policy := filepath.Join(dir, "policy.toml")
	for name, text := range map[string]string{
		program: "#!/bin/sh\n", loose: "#!/bin/sh\n", filepath.Join(state, "file"): "", filepath.Join(logs, "file"): "",
		policy: "shim.logs = ['" + logs + "']\nshim.loggers = ['" + program + "?k=v', '" + loose + "']\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(loose, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(logs, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(logs, "dir")); err != nil {
		t.Fatal(err)
	}
	at := ioPolicy{name{config: policy}, bundle}
	for _, c := range []struct{ uri, refused string }{
		{"", ""},
		{state + "/pipe", ""},
		{logs + "/pipe", ""},
		{own + "/x-stdout", ""},
		{logs + "/file", ""},
		{"file://" + logs + "/file", ""},
		{"file://" + logs + "/new/file", ""},
		{"binary://" + program + "?k=v", ""},
		{"binary-v2://" + program + "?k=v", ""},

		{other + "/pipe", "shim.logs"},
		{users + "/x-stdout", "shim.logs"}, // a user's, who can replace it
		{own + "/absent", "shim.logs"},
		{"/run/initctl", "shim.logs"},
		{state + "/file", "shim.logs"}, // appended to as root, as it is no pipe
		{"/etc/passwd", "shim.logs"},
		{"file:///etc/cron.d/x", "shim.logs"},
		{"file://" + logs + "/../other/x", "clean absolute path"},
		{"file://" + logs + "/link", "neither a file nor a pipe"},
		{"file://" + logs + "/dir/x", "shim.logs"},
		{"file://" + logs + "/dir/new/x", "shim.logs"},
		{"file://host" + logs + "/file", "clean absolute path"},
		{"file:etc/passwd", "clean absolute path"},
		{"binary:///bin/sh?-c=id", `add "/bin/sh?-c=id" to shim.loggers`},
		{"binary-v2:///bin/sh", "shim.loggers"},
		{"binary://" + program, "shim.loggers"},
		{"binary://" + program + "?k=w", "shim.loggers"},
		{"binary://" + program + "?k=v&more=1", "shim.loggers"},
		{"binary://" + program + "?k=v&k=w", "shim.loggers"},
		{"binary://" + loose, "written by others"},
		{"binary://host" + program + "?k=v", "clean absolute path"},
		{"binary:" + program + "?k=v", ""},   // the same
		{"BINARY:///bin/sh", "shim.loggers"}, // schemes have no case (RFC 3986)
		{"fifo://" + state + "/pipe", "not known"},
		{"npipe:////./pipe/x", "not"},
		{"relative", "clean absolute path"},
		{"%zz", "not a URI"},
		{state + "//pipe", "clean absolute path"},
	} {
		for i := range 3 {
			var s [3]string
			s[i] = c.uri
			err := at.checkStdio(s[0], s[1], s[2])
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("%q: %v", c.uri, err)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), "refused")):
				t.Errorf("%q: not %q: %v", c.uri, c.refused, err)
			}
		}
	}
	// Nothing of the host's policy: only engines' pipes.
	if err := (ioPolicy{bundle: bundle}).check("file://" + logs + "/file"); err == nil {
		t.Error("the host's policy allows a file")
	}
}

// TestDaemonDirs: where the daemons' pipes are, by the bundle's place.
func TestDaemonDirs(t *testing.T) {
	for bundle, want := range map[string]string{
		"/run/containerd/io.containerd.runtime.v2.task/moby/id":       "/run/containerd",
		"/d/exec/containerd/daemon/io.containerd.runtime.v2.task/m/i": "/d/exec/containerd",
		"/anywhere/else": "",
		"relative":       "",
		"":               "",
	} {
		dirs := ioPolicy{bundle: bundle}.daemonDirs()
		got := ""
		if len(dirs) == 2 {
			got = dirs[1]
		}
		if got != want {
			t.Errorf("%q: %v", bundle, dirs)
		}
	}
}
