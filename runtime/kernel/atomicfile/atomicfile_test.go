package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWriteLink: Write does not follow a link that waits at the name of its temporary
// file, and leaves nothing when it fails.
func TestWriteLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "state")
	last := names.Load()
	if err := os.Symlink(victim, Unique(at+".")+".tmp"); err != nil {
		t.Fatal(err)
	}
	names.Store(last)
	if err := Write(at, []byte("new"), 0o600); err == nil {
		t.Error("wrote through a symbolic link")
	}
	if got, _ := os.ReadFile(victim); string(got) != "precious" {
		t.Errorf("the link's target holds %q", got)
	}
}

// TestHead: the first bytes are kept over several writes, none of which fails.
func TestHead(t *testing.T) {
	h := Head{Max: 5}
	for _, text := range []string{"abc", "def", "ghi"} {
		if n, err := h.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	if string(h.Text) != "abcde" {
		t.Errorf("kept %q", h.Text)
	}
}
