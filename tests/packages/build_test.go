package packages

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// release makes a version in a directory; prefix are the words of a command that runs the Go tool.
func release(root, version, formats, out string, env []string, prefix ...string) error {
	args := append(prefix, "go", "run", "./hack/release", "-arch", runtime.GOARCH, "-formats", formats, "-quick", "-version", version, "-out", out)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the packages: %w\n%s", err, text)
	}
	return nil
}

// needsGo skips a test where there is no Go tool; it returns the module's directory.
func needsGo(t *testing.T) string {
	t.Helper()
	if os.Getenv(madeEnv) != "" {
		t.Skip("the packages were made elsewhere, and there is no Go tool here")
	}
	root := env.Get(t, engine.ModuleRoot)
	return root
}

// TestReproducible: the same commit makes the same bytes at another path, at another time, for another user's settings.
func TestReproducible(t *testing.T) {
	root := needsGo(t)
	there := t.TempDir()
	tmp := t.TempDir()
	out := filepath.Join(t.TempDir(), "out")
	// The tree is seen at another path, in a namespace of the command's own.
	const script = `mount --bind "$1" "$2"; cd "$2"; shift 2; umask 077; exec "$@"`
	vars := []string{"TMPDIR=" + tmp, "TZ=Asia/Tokyo", "LC_ALL=C", "GOFLAGS=-trimpath -p=1"}
	env.Check(t, release(root, first, everything, out, vars, "unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh", root, there))
	sums := env.Read(t, filepath.Join(made, first, "SHA256SUMS"))
	again := env.Read(t, filepath.Join(out, "SHA256SUMS"))
	if n := bytes.Count(sums, []byte("\n")); n != 4 || !bytes.Equal(sums, again) {
		t.Errorf("made first:\n%s, made again:\n%s", sums, again)
	}
	if text, err := checksums(out); err != nil {
		t.Errorf("the checksums: %v\n%s", err, text)
	}
}

func checksums(dir string) ([]byte, error) {
	cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

// TestGoInstall: the Go tool by itself makes the programs, and they find each other.
func TestGoInstall(t *testing.T) {
	root := needsGo(t)
	bin := t.TempDir()
	cmd := exec.Command("go", "install", "./cmd/...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	for _, args := range [][]string{{"--version"}, {"check", "--help"}} {
		if out, err := exec.Command(filepath.Join(bin, "agentjail"), args...).CombinedOutput(); err != nil || !strings.Contains(string(out), "agentjail") {
			t.Errorf("agentjail %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	// As many as the packages bring, so that no program is forgotten.
	entries, err := os.ReadDir(bin)
	env.Check(t, err)
	list, err := exec.Command("tar", "-tzf", filepath.Join(made, first, "agentjail-"+first+"-linux-"+runtime.GOARCH+".tar.gz")).Output()
	env.Check(t, err)
	for _, e := range entries {
		if !strings.Contains(string(list), "/bin/"+e.Name()+"\n") {
			t.Errorf("the archive lacks %s", e.Name())
		}
	}
}
