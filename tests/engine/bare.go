package engine

import (
	"fmt"
	"os"
	"testing"

	"agentjail.dev/tests/env"
)

// MainBare runs a package's tests without an engine, with the runtime under test at *bin, and returns the exit code. why states for what the
// tests need root.
func MainBare(m *testing.M, why string, bin *string) int {
	IfJanitor()
	SuiteNeedsRoot(why)
	var err error
	if *bin, err = UnderTest(); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		return 1
	}
	defer func() { _ = RemoveBuilt() }()
	return m.Run()
}

// TempDir makes a directory below parent, which may be passed through by jails' users and is removed with the test.
func TempDir(t testing.TB, parent, prefix string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, prefix)
	env.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	env.Check(t, os.Chmod(dir, 0o711))
	return dir
}
