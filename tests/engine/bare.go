package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

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

// Run runs a program to its end, whatever its exit code. The test ends if it cannot be started or is killed.
func Run(t testing.TB, path string, args ...string) Result {
	t.Helper()
	r := Result{Program: path, Args: args}
	cmd := exec.Command(path, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	began := time.Now()
	err := cmd.Run()
	r.Stdout, r.Stderr, r.Took = out.String(), errOut.String(), time.Since(began)
	r.ended(err)
	var exit *exec.ExitError
	if r.Code == -1 || err != nil && !errors.As(err, &exit) {
		t.Fatal(r)
	}
	return r
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
