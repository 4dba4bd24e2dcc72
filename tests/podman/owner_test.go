package podman

import (
	"path/filepath"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestOwnerAnnotation: an annotation names who of a jail owns a mounted directory, by a name of the image's.
func TestOwnerAnnotation(t *testing.T) {
	p := root(t)
	dir := shared(t, p, 4711)
	id := p.Detached("--network=none", "--annotation", "dev.agentjail.binds.owner=app", "-v", dir+":/w", engine.Busybox, "sleep", "3600")
	p.Must("exec", "-u", "1000", id, "sh", "-c", "cp -p /etc/passwd /w/new")
	if got := env.Owner(t, filepath.Join(dir, "new")); got != "4711:4711" {
		t.Errorf("the file belongs to %s on the host", got)
	}
	if r := p.Podman("exec", id, "touch", "/w/roots"); r.Code == 0 {
		t.Errorf("the first process's user wrote: %s", r)
	}
}
