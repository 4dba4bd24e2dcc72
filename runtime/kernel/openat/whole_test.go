package openat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhole: a file is read whole or refused, and the kernel's files are refused.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	plain, empty := filepath.Join(dir, "plain"), filepath.Join(dir, "empty")
	if err := errors.Join(os.WriteFile(plain, []byte("text"), 0o600), os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		plain: "text", empty: "", "/proc/self/status": "kernel", "/sys/kernel/mm/transparent_hugepage/enabled": "kernel",
	} {
		f, err := Regular(unix.AT_FDCWD, path, Real)
		if err != nil {
			t.Log(err)
			continue
		}
		data, err := Whole(f, 100<<10)
		f.Close()
		if got := string(data); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) || err != nil && want == "" {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	f, err := Regular(unix.AT_FDCWD, plain, Real)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Whole(f, 3); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a bound: %v", err)
	}
}
