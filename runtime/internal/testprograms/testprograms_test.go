package testprograms

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestPut: programs that were built before are copied, and one that was not is no reason to build
// it.
func TestPut(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "agentjail"), []byte("a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(env, from)
	if err := Put(to, "agentjail"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(to, "agentjail")
	if text, err := os.ReadFile(path); err != nil || string(text) != "a program" {
		t.Errorf("the copy holds %q, %v", text, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode()&0o100 == 0 {
		t.Errorf("the copy cannot be run: %v, %v", st, err)
	}
	if err := Put(to, "agentjail-enter"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that was not built: %v", err)
	}
}
