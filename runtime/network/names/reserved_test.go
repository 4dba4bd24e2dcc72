package names

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/network/names/internal/helperproto"
)

// TestHelperNotesAreRead: what a helper notes is read again, and what it could not have noted is refused.
func TestHelperNotesAreRead(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "32640\n": 32640, "32640\n49024\n": 49024, "49024\n32640\n": 49024,
		"x\n": -1, "-1\n": -1, "99999999\n": -1, "0\n": -1, strings.Repeat("32640\n", 10000): -1,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, helperproto.ReservedFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readReserved(dir); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%.20q: %d, %v", text, got, err)
		}
	}
	if got, err := readReserved(t.TempDir()); got != 0 || err != nil {
		t.Errorf("without a file: %d, %v", got, err)
	}
}
