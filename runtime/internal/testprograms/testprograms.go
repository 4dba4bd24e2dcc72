// Package testprograms builds the programs of this module for tests. Only tests import it.
package testprograms

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// env names the environment variable of the directory that holds the programs, by their names below
// cmd/. hack/quick.sh sets it: the user that runs the tests there may be unable to read the module
// or Go's caches. Where it is unset, Put builds them.
const env = "AGENTJAIL_TEST_PROGRAMS"

// Put makes the programs of these names in dir, an absolute path. They belong to the caller.
func Put(dir string, names ...string) error {
	if from := os.Getenv(env); from != "" {
		for _, name := range names {
			if err := copyProgram(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("copying a program from %s: %w", env, err)
			}
		}
		return nil
	}
	args := []string{"build", "-buildvcs=false", "-trimpath", "-tags=urfave_cli_no_docs", "-ldflags=-s -w", "-o", dir + "/"}
	for _, name := range names {
		args = append(args, "agentjail.dev/cmd/"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build (remedy: programs that were built before, in %s): %w\n%s", env, err, out)
	}
	return nil
}

// copyProgram copies an executable file. Nothing may be at to.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	return err
}
