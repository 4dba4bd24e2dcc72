package install

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// aNode is a machine's file tree with a shell, an installer that writes containerd's configuration,
// and the script "again" in its /usr/bin, which restarts containerd unless the file /broken is
// there.
func aNode(t *testing.T) Machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it changes its root directory")
	}
	const busybox = "/bin/busybox"
	shell, err := os.ReadFile(busybox)
	if err != nil {
		t.Skipf("no static shell: %v", err)
	}
	if out, err := exec.Command(busybox, "sh", "-c", "true").CombinedOutput(); err != nil {
		t.Skipf("%s: %v: %s", busybox, err, out)
	}
	root := t.TempDir()
	for name, text := range map[string]string{
		"bin/sh":        string(shell),
		"usr/bin/again": "#!/bin/sh\n[ ! -e /broken ] && echo again >>/restarts\n",
		"opt/installer": "#!/bin/sh\necho \"$1\" >/etc/containerd/config.toml\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, name), text, 0o755)
	}
	if err := os.MkdirAll(filepath.Join(root, "etc/containerd"), 0o755); err != nil {
		t.Fatal(err)
	}
	var says bytes.Buffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(says.String())
		}
	})
	return Machine{Root: root, To: "/opt", Names: []string{"installer"}, Installer: "installer", Restart: []string{"again"}, Stdout: &says, Stderr: &says}
}

// restarts counts them.
func restarts(t *testing.T, m Machine) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.Root, "restarts"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "again")
}

// TestRestartByName: the program that restarts containerd is the machine's, found by its name
// there. The image of the DaemonSet has none.
func TestRestartByName(t *testing.T) {
	m := aNode(t)
	t.Setenv("PATH", "/nowhere") // as in an image that has nothing but agentjail
	if err := m.register("install"); err != nil {
		t.Fatal(err)
	}
	if n := restarts(t, m); n != 1 {
		t.Errorf("%d restarts", n)
	}
	if err := m.register("install"); err != nil || restarts(t, m) != 1 {
		t.Errorf("a second run: %v, %d restarts", err, restarts(t, m))
	}
	m.Restart = []string{"no-such-program"}
	if err := m.register("uninstall"); err == nil || !strings.Contains(err.Error(), "the node has no program no-such-program") {
		t.Errorf("a program that is not there: %v", err)
	}
	// No link of the machine leads out of its tree.
	if err := os.Symlink("/proc/self/exe", filepath.Join(m.Root, "usr/bin/link")); err != nil {
		t.Fatal(err)
	}
	if path, err := m.find("link"); err == nil {
		t.Errorf("a link that leads nowhere on the machine: %s", path)
	}
}

// TestRestartOwed: a restart that failed is made good by the next run, though that changes nothing;
// and only once.
func TestRestartOwed(t *testing.T) {
	m := aNode(t)
	broken := filepath.Join(m.Root, "broken")
	write(t, broken, "", 0o644)
	for range 2 {
		if err := m.register("install"); err == nil {
			t.Fatal("the restart failed, and the run did not")
		}
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.register("install"); err != nil {
			t.Fatal(err)
		}
		if n := restarts(t, m); n != 1 {
			t.Fatalf("%d restarts", n)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(m.Root, "run")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// A run that could not change anything owes nothing.
	write(t, filepath.Join(m.Root, "opt/installer"), "#!/bin/sh\nexit 1\n", 0o755)
	if err := m.register("uninstall"); err == nil {
		t.Error("the installer failed, and the run did not")
	}
	if owed, err := m.restartPending(); err != nil || owed {
		t.Errorf("owed: %v, %v", owed, err)
	}
}
