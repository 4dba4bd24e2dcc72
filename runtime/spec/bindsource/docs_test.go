package bindsource

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/mounts.md's table of users' places anew")

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
	const begin, end = "<!-- users -->\n", "<!-- /users -->"
	data, err := os.ReadFile(mountsPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	before, rest, ok := strings.Cut(page, begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the page has no place for users' places")
	}
	if want := usersTable(); table != want && *update {
		if err := os.WriteFile(mountsPage, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if table != want {
		t.Error("docs/mounts.md has other places of users: go test ./runtime/spec/bindsource -run TestMountsPage -update")
	}
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
