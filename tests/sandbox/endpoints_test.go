package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// isRead reports a pipe that was opened to read from, which a read-only mount does not prevent (docs/security/limitations.md).
func isRead(path string) bool { return strings.HasSuffix(path, " read") }

// TestHostEndpoints: nothing of the host's that listens at a socket or a pipe in a mounted directory is reached, written to or read, and what the
// jail makes itself is.
func TestHostEndpoints(t *testing.T) {
	dir := engine.Workspace(t, nil)
	probe := engine.PutProbe(t, engine.Workspace(t, nil))
	listen := engine.ListenIn(t, dir)
	for _, with := range [][]string{{}, {"--read-only"}} {
		args := append(with, "-w", dir, "-v", probe+":/tmp/probe:ro", "--")
		code, out, errs := sandbox(t, append(args, "/tmp/probe", "endpoints", dir)...)
		if code != 0 {
			t.Fatalf("status %d: %s", code, errs)
		}
		excused := isRead
		if len(with) == 0 {
			excused = nil
			listen.Kept(t, "written to", out, nil)
		}
		listen.Kept(t, strings.Join(with, " "), out, excused)
	}
	// Elsewhere, by another path, in a larger directory, and read-only there.
	for _, mount := range []string{dir + ":/x", dir + ":/x:ro", filepath.Dir(dir) + "/" + filepath.Base(dir) + "/deep:/x/y"} {
		code, out, errs := sandbox(t, "-v", mount, "-v", probe+":/tmp/probe:ro", "--", "/tmp/probe", "endpoints", "/x")
		if code != 0 {
			t.Fatalf("status %d: %s", code, errs)
		}
		for path, o := range env.Decode[map[string]engine.Outcome](t, out) {
			if o.Errno == "" && !(isRead(path) && strings.HasSuffix(mount, ":ro")) {
				t.Errorf("%s: %s was reached", mount, path)
			}
		}
	}
	if came := listen.Reached(); len(came) > 0 {
		t.Errorf("something came to %v", came)
	}
	code, out, errs := sandbox(t, "-w", dir, "-v", probe+":/tmp/probe:ro", "--", "/tmp/probe", "own-endpoints", dir, "/tmp", "/run", dir+"/deep")
	if code != 0 {
		t.Fatalf("status %d: %s", code, errs)
	}
	for what, o := range env.Decode[map[string]engine.Outcome](t, out) {
		if o.Errno != "" && !strings.HasPrefix(what, "/run ") {
			t.Errorf("a socket of the jail's own: %s: %+v", what, o)
		}
	}
}

// TestListedEndpoints: what policy lists is reached, in each mount and as a mount; nothing else is, and no project file and no annotation lists more.
func TestListedEndpoints(t *testing.T) {
	dir := engine.Workspace(t, nil)
	probe := engine.PutProbe(t, engine.Workspace(t, nil))
	listen := engine.ListenIn(t, dir)
	policy := filepath.Join(engine.TempDir(t, "/tmp", "agentjail-policy-"), "config.toml")
	env.Check(t, os.WriteFile(policy, []byte("binds.sockets = [\""+dir+"/deep/**\"]\n"), 0o644))
	listed := func(path string) bool { return pathname.Below(path, dir+"/deep") || strings.HasPrefix(path, "deep/") }
	for _, with := range [][]string{{}, {"--read-only"}} {
		code, out, errs := sandbox(t, append(with, "--config", policy, "-w", dir, "-v", probe+":/tmp/probe:ro", "--", "/tmp/probe", "endpoints", dir)...)
		if code != 0 {
			t.Fatalf("status %d: %s", code, errs)
		}
		listen.Kept(t, "with policy", out, listed)
		for path, o := range env.Decode[map[string]engine.Outcome](t, out) {
			if listed(path) && o.Errno != "" {
				t.Errorf("%v: %s is listed: %+v", with, path, o)
			}
		}
	}
	sock := dir + "/deep/er/stream"
	if code, out, errs := sandbox(t, "--config", policy, "-v", sock+":/stream", "-v", probe+":/tmp/probe:ro", "--", "/tmp/probe", "connect", "unix,/stream"); code != 0 {
		t.Errorf("a listed socket as a mount: status %d: %s%s", code, out, errs)
	}
	if code, _, errs := sandbox(t, "--config", policy, "-v", dir+"/stream:/stream", "--", "true"); code != 125 || !strings.Contains(errs, "a Unix socket lets the container act") {
		t.Errorf("another socket as a mount: status %d: %s", code, errs)
	}
	if code, _, errs := sandbox(t, "--tighten", "binds.sockets="+dir+"/**", "--", "true"); code == 0 {
		t.Errorf("by an annotation: status 0: %s", errs)
	}
}

// TestReadOnlyStaysLive: a mount that is only read shows what the host changes later, and reports it (inotify(7)). A socket that comes later is kept
// from the jail, too.
func TestReadOnlyStaysLive(t *testing.T) {
	dir := engine.Workspace(t, map[string]string{"old": "before\n", "private": "owner's\n"})
	probe := engine.PutProbe(t, engine.Workspace(t, nil))
	env.Check(t, os.Chmod(dir+"/private", 0o600))
	h := holdWith(t, "--read-only", "-w", dir, "-v", probe+":/tmp/probe:ro")
	says := func(script, want string) {
		t.Helper()
		env.Equal(t, script, h.do(t, script), want+"=0\n")
	}
	says("cat "+dir+"/private", "owner's\n")
	says("/tmp/probe changes "+dir+" /tmp/ready >/tmp/changes & until [ -e /tmp/ready ]; do :; done", "")
	env.Check(t, errors.Join(os.WriteFile(dir+"/old", []byte("after\n"), 0o644), os.WriteFile(dir+"/new", []byte("new\n"), 0o644)))
	says("cat "+dir+"/old "+dir+"/new", "after\nnew\n")
	says("until [ -s /tmp/changes ]; do :; done; cat /tmp/changes", "\"old\"\n")
	listen := engine.ListenIn(t, dir)
	out, _, _ := strings.Cut(h.do(t, "/tmp/probe endpoints "+dir), "=0")
	listen.Kept(t, "what came later", out, isRead)
	// For what was there, a search would do as well.
	code, _, errs := sandbox(t, "--read-only", "-w", dir, "--", "sh", "-c", "grep ' "+dir+" ' /proc/self/mountinfo | grep -q idmapped")
	env.Equal(t, "a mount without groups: "+errs, code, 0)
}
