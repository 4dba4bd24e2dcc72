package bindsource

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"agentjail.dev/runtime/internal/docpage"
	"agentjail.dev/runtime/kernel/users"
)

const mountsPage = "../../../docs/mounts.md"

// shownPlaces is how many places of a kind the page has. The refusal names the others, with the
// programs by which a place counts, and its caches.
const shownPlaces = 6

// usersTable is the page's table of users' places: a row for each kind.
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
		text := strings.Join(places[kind][:min(shownPlaces, len(places[kind]))], " ")
		if more := len(places[kind]) - shownPlaces; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", kind.why, refused, text)
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
	for _, p := range append(storage, users.Parents...) {
		if _, name, _ := strings.Cut(p, "/var/lib/"); !strings.Contains(page, p) && (name == "" || !strings.Contains(page, name)) && !strings.HasPrefix(p, "/run/") {
			t.Errorf("docs/mounts.md does not name %s", p)
		}
	}
}
