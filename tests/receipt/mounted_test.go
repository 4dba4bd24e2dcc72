package receipt

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/receipt"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// workspace is a directory that a jail may write to, with a file that stays as it is.
func workspace(t *testing.T) string {
	t.Helper()
	return engine.Workspace(t, map[string]string{"kept": "", "sub/": ""})
}

// TestMountedDirectoryChanges: what was changed in a mounted directory is in the receipt of a jail that was deleted, whether the jail did it or somebody
// else, and it reports it.
func TestMountedDirectoryChanges(t *testing.T) {
	d := docker.For(t)
	script := "echo x > /work/sub/made; ln -s /etc /work/link; touch -d @0 /work/sub/made; touch \"/work/$(printf 'evil\\n\\033[2J')\"; echo done > /work/done; exec sleep 1000"
	want := []string{`/work/evil\x0a\x1b[2J`, "/work/link", "/work/sub/", "/work/sub/made", "/work/host"}
	var r *receipt.Receipt
	// A busy machine can use up the few milliseconds that the look has.
	for range 10 {
		dir := workspace(t)
		id := d.Detached("--runtime", "agentjail-receipt", "-v", dir+":/work", engine.Busybox, "sh", "-c", script)
		env.Eventually(d, "the jail's files", func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, "done"))
			return string(text) == "done\n"
		})
		env.Check(t, os.WriteFile(filepath.Join(dir, "host"), nil, 0o644))
		if m := receiptOf(t, id).Touched.Mounted; len(m) != 1 || m[0].At != "/work" {
			t.Errorf("of a running jail: %+v", m)
		}
		d.Must("rm", "-f", id)
		r = receiptOf(t, id)
		checkTeardown(t, r)
		if len(r.Touched.Mounted) != 1 || !strings.HasPrefix(r.Touched.Mounted[0].Short, "for want of time") {
			text, _ := agentjail(t, "receipt", id)
			if !strings.Contains(text, "were changed since the jail was made, by it or by anybody else") || strings.Contains(text, "\x1b") {
				t.Errorf("the text: %s", text)
			}
			break
		}
		t.Logf("once more: %+v", r.Touched.Mounted)
	}
	if len(r.Touched.Mounted) != 1 {
		t.Fatalf("%+v", r.Touched)
	}
	m := r.Touched.Mounted[0]
	for _, path := range want {
		if !slices.Contains(m.Changed, path) {
			t.Errorf("%s is not in %q", path, m.Changed)
		}
	}
	if slices.Contains(m.Changed, "/work/kept") || slices.ContainsFunc(m.Changed, func(p string) bool { return strings.HasPrefix(p, "/work/link/") }) {
		t.Errorf("an unchanged file is in %q", m.Changed)
	}
	if m.At != "/work" || m.Total != len(m.Changed) || m.Entries < m.Total {
		t.Errorf("%+v", m)
	}
}
