package receipt

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/receipt"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestNestedMountsAreNamed: where mounts lie in each other, each changed file is named by its own mount.
func TestNestedMountsAreNamed(t *testing.T) {
	d := docker.For(t)
	outer, inner, other := workspace(t), workspace(t), workspace(t)
	env.Check(t, os.Remove(filepath.Join(inner, "sub")))
	id := d.Detached("--runtime", "agentjail-receipt", "-v", outer+":/work", "-v", inner+":/work/sub", "-v", other+":/zdata",
		engine.Busybox, "sh", "-c", "echo > /work/a; echo > /work/sub/b; echo > /zdata/c")
	d.Must("wait", id)
	d.Must("rm", id)
	r := receiptOf(t, id)
	for at, name := range map[string]string{"/work": "/work/a", "/work/sub": "/work/sub/b", "/zdata": "/zdata/c"} {
		i := slices.IndexFunc(r.Touched.Mounted, func(m receipt.Mounted) bool { return m.At == at })
		if i < 0 {
			t.Errorf("%s is not in %+v", at, r.Touched.Mounted)
		} else if m := r.Touched.Mounted[i]; m.Short == "" && !slices.Contains(m.Changed, name) {
			t.Errorf("%s is not in %q", name, m.Changed)
		}
	}
	if len(r.Touched.Mounted) != 3 {
		t.Errorf("%+v", r.Touched.Mounted)
	}
}

// TestIdleJailChangedNothing: what agentjail prepares of an image is no change of a jail that did nothing, for the receipt and for diff; what the jail changed of
// it is.
func TestIdleJailChangedNothing(t *testing.T) {
	d := docker.For(t)
	const image = "agentjail-receipt-idle"
	err := d.ImportBusyboxWith(image, map[string]string{"/etc/apt/apt.conf.d/own": "", "/var/lib/dpkg/statoverride": "", "/etc/keep": ""}, nil)
	env.Check(t, err)
	t.Cleanup(func() { d.Docker("rmi", "-f", image) })
	id := d.Detached("--runtime", "agentjail-receipt", image, "sh", "-c", "test -s /etc/apt/apt.conf.d/99agentjail && test -s /var/lib/dpkg/statoverride && exec sleep 1000")
	if r := receiptOf(t, id); !r.Touched.Known || len(r.Touched.Files) > 0 {
		t.Errorf("an idle jail wrote %v", r.Touched.Files)
	}
	if text, code := agentjail(t, "diff", id); code != 0 || strings.TrimSpace(text) != "" {
		t.Errorf("diff of an idle jail: status %d: %s", code, text)
	}
	d.Must("exec", id, "sh", "-c", "echo x >> /var/lib/dpkg/statoverride; echo y > /made")
	d.Must("rm", "-f", id)
	want := []journal.File{{Kind: "A", Path: "/made"}, {Kind: "C", Path: "/var/lib/dpkg/statoverride"}}
	if r := receiptOf(t, id); !slices.Equal(r.Touched.Files, want) {
		t.Errorf("it wrote %v, want %v", r.Touched.Files, want)
	}
}
