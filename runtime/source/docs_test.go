package source

import (
	"os"
	"strings"
	"testing"
)

// TestMountsPage: docs/mounts.md names each place of the tables.
func TestMountsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/mounts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range userPlaces {
		if !strings.Contains(string(page), "`~/"+p.path+"`") {
			t.Errorf("docs/mounts.md does not name ~/%s", p.path)
		}
	}
	for _, p := range publicPlaces {
		if !strings.Contains(string(page), "`"+p.path+"`") {
			t.Errorf("docs/mounts.md does not name %s", p.path)
		}
	}
	for _, p := range append(storage, homes...) {
		if _, name, _ := strings.Cut(p, "/var/lib/"); !strings.Contains(string(page), p) && (name == "" || !strings.Contains(string(page), name)) && !strings.HasPrefix(p, "/run/") {
			t.Errorf("docs/mounts.md does not name %s", p)
		}
	}
}
