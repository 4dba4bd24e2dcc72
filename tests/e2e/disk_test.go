package e2e

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func init() {
	engine.Policies["agentjail-disk"] = "[root]\nbacking = \"disk\"\ndisk = \"256MiB\"\nsize = \"300MiB\"\n[limits]\nmemory = \"48MiB\"\n"
}

// TestRootOnDisk: a jail whose root is on disk writes more than its memory there, up to root.disk; what engines do with a container's files
// is as with a root in memory; and nothing is left of it.
func TestRootOnDisk(t *testing.T) {
	needAgentjail(t)
	engine.NeedsViews(t)
	engine.LayersOnDisk(t)
	d := docker.For(t)
	const rt = "--runtime=agentjail-disk"
	id := d.Detached(rt, engine.Busybox, "sleep", "3600")
	if len(engine.DiskRoots()) != 1 {
		t.Fatalf("loop devices: %q", engine.DiskRoots())
	}
	const large = "dd if=/dev/zero of=/large bs=1M count=180 2>&1 && sync && stat -c %s /large"
	if out := sh(d, id, large); !strings.HasSuffix(out, "188743680") {
		t.Errorf("more than memory: %s", out)
	}
	// In memory the same is the end of the program that writes.
	if r := d.Docker("run", "--rm", rt, "--label", "dev.agentjail.root.backing=memory", engine.Busybox, "sh", "-c", large); r.Code == 0 {
		t.Errorf("one in memory takes more than memory: %s", r)
	}
	if r := d.Docker("exec", id, "sh", "-c", "dd if=/dev/zero of=/more bs=1M count=180"); !strings.Contains(r.Stderr, "No space left on device") {
		t.Errorf("more than root.disk: %s", r)
	}
	sh(d, id, "rm /more /large; mkdir /made; echo made >/made/file; rm /etc/passwd; echo x >>/etc/group")

	diff := strings.Fields(d.Must("diff", id))
	for _, want := range []string{"A /made/file", "D /etc/passwd", "C /etc/group"} {
		if !strings.Contains(strings.Join(diff, " "), want) {
			t.Errorf("docker diff is without %s: %q", want, diff)
		}
	}
	text, code := ownVerb(t, "diff", id)
	if code != 0 || !strings.Contains(text, "/made/file") {
		t.Errorf("agentjail diff: %d, %s", code, text)
	}
	for range 2 { // the second time over the first
		copyIn(d, archived(t, tar.Header{Typeflag: tar.TypeReg, Name: "secret", Mode: 0o600}), id+":/made")
		env.Equal(t, "a copied file", sh(d, id, "stat -c '%u %a' /made/secret; rm /made/file; echo made >/made/file"), "0 600")
	}
	to := filepath.Join(t.TempDir(), "file")
	d.Must("cp", id+":/made/file", to)
	if got, err := os.ReadFile(to); err != nil || string(got) != "made\n" {
		t.Errorf("copied out: %q, %v", got, err)
	}
	if r := d.Docker("export", id); !strings.Contains(r.Stdout, "made/secret") {
		t.Errorf("docker export is without a file, status %d", r.Code)
	}
	text, code = ownVerb(t, "inspect", id)
	if code != 0 || !strings.Contains(text, "layer on disk of 2") {
		t.Errorf("inspect: %d, %s", code, text)
	}
	major, minor := workspace.Of(state.Store{Root: state.DefaultRoot}).Disk()
	if want := fmt.Sprintf("writing %d:%d at 200MiB/s", major, minor); major != 0 && !strings.Contains(text, want) {
		t.Errorf("inspect is without %q:\n%s", want, text)
	}
	d.Must("rm", "-f", id)
	engine.NoDiskRoots(t)
}
