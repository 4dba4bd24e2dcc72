package programs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpen: what was opened once is the program, whatever is at its place later.
func TestOpen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the program must be root's")
	}
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	const name = "program-of-test"
	path := filepath.Join(dir, name)
	if _, err := Open(name); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("a program that is missing: %v", err)
	}
	write := func(text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o755), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Remove(path) })
	write("#!/bin/sh\necho old\n")
	first, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	write("#!/bin/sh\necho new\n")
	again, err := Open(name)
	if err != nil || again != first {
		t.Errorf("opened twice: %v, %v, %v", first, again, err)
	}
	text := make([]byte, 64)
	if n, _ := again.ReadAt(text, 0); !strings.HasSuffix(string(text[:n]), "old\n") {
		t.Errorf("it reads %q", text[:n])
	}
	if first.Fd() < above {
		t.Errorf("its number is %d, which a child's file may take", first.Fd())
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Check(path); err == nil || !strings.Contains(err.Error(), "written by others than root") {
		t.Errorf("a program that others can write: %v", err)
	}
}

// TestPath: a child executes the program, also one with many files.
func TestPath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the program must be root's")
	}
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	const name = "true-of-test"
	from, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, name)
	if err := os.WriteFile(at, text, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(at) })
	path, err := Path(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Args[0] = "true" // where true is one of several in a program
	for range above/2 - 3 {
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.Stdin)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
