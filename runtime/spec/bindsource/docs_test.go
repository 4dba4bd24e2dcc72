package bindsource

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"agentjail.dev/runtime/internal/docpage"
)

const mountsPage = "../../../docs/mounts.md"

// usersTable is the page's table of users' places: a row for each kind. The programs by which a place
// counts, and its caches, are in the refusal alone.
func usersTable() string {
	var kinds []*placeKind
	places := make(map[*placeKind][]string)
	for i := range userPlaces {
		p := &userPlaces[i]
		if places[p.kind] == nil {
			kinds = append(kinds, p.kind)
		}
		places[p.kind] = append(places[p.kind], "`"+p.path+"`")
	}
	var b strings.Builder
	b.WriteString("| because | refused | below a home |\n|---|---|---|\n")
	for _, kind := range kinds {
		refused := "writable"
		if kind.reads {
			refused = "always"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", kind.why, refused, strings.Join(places[kind], " "))
	}
	return b.String()
}

// TestMountsPage: docs/mounts.md has the table of users' places, and names each place of the other tables.
func TestMountsPage(t *testing.T) {
	docpage.Holds(t, mountsPage, "users", usersTable())
	data, err := os.ReadFile(mountsPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, p := range publicPlaces {
		if !strings.Contains(page, "`"+p.path+"`") {
			t.Errorf("docs/mounts.md does not name %s", p.path)
		}
	}
	for _, p := range append(storage, homes...) {
		if _, name, _ := strings.Cut(p, "/var/lib/"); !strings.Contains(page, p) && (name == "" || !strings.Contains(page, name)) && !strings.HasPrefix(p, "/run/") {
			t.Errorf("docs/mounts.md does not name %s", p)
		}
	}
}
