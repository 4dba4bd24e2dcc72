package namespace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpen(t *testing.T) {
	f, err := Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{file: ErrNone, pipe: ErrNone, dir: ErrNone, filepath.Join(dir, "none"): os.ErrNotExist} {
		if f, err := Open(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
}
