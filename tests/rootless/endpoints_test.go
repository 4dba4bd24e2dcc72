package rootless

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestHostEndpoints: nothing of the host's that listens is reached anywhere in the machine's file tree, neither in a workspace nor elsewhere, also
// as the user's own id. What the jail makes itself is.
func TestHostEndpoints(t *testing.T) {
	needs(t)
	outside := engine.TempDir(t, "/opt", "agentjail-endpoints-")
	env.Check(t, errors.Join(os.Chmod(outside, 0o755), os.Chown(outside, low.uid, low.uid)))
	probe := engine.PutProbe(t, outside)
	work := low.workspace(t)
	inWork, elsewhere := engine.ListenIn(t, work), engine.ListenIn(t, outside)
	isRead := func(path string) bool { return strings.HasSuffix(path, " read") }
	for _, with := range [][]string{{"-w", work}, {"--read-only", "-w", work}} {
		inWork.Kept(t, strings.Join(with, " "), low.sandbox(t, append(with, "--", probe, "endpoints", work)...), nil)
		// There a pipe is another one, which no process of the host has.
		elsewhere.Kept(t, strings.Join(with, " "), low.sandbox(t, append(with, "--", probe, "endpoints", outside)...), isRead)
	}
	later := low.sandbox(t, "-w", work, "--", probe, "own-endpoints", work, "/tmp")
	for what, o := range env.Decode[map[string]engine.Outcome](t, later) {
		if o.Errno != "" {
			t.Errorf("a socket of the jail's own: %s: %+v", what, o)
		}
	}
}

// TestTreeWithMounts: in a part of the machine's tree with mounts in it, of which a user cannot have an overlay, sockets that listen are covered.
func TestTreeWithMounts(t *testing.T) {
	needs(t)
	outside := engine.TempDir(t, "/etc", "agentjail-endpoints-") // the tests have mounts in /etc
	env.Check(t, os.Chmod(outside, 0o755))
	probe := engine.PutProbe(t, outside)
	listen := &engine.Endpoints{Dir: outside}
	listen.Listen(t, filepath.Join(outside, "stream"), 1)
	listen.Kept(t, "with mounts", low.sandbox(t, "--", probe, "endpoints", outside), nil)
}
