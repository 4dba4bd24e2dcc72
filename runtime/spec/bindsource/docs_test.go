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

// usersTable is the page's table of users' places: a row for each kind and program.
func usersTable() string {
	var b strings.Builder
	b.WriteString("| places | why | by | refused | caches in it that can be mounted |\n|---|---|---|---|---|\n")
	for i := 0; i < len(userPlaces); {
		first := &userPlaces[i]
		var names []string
		for ; i < len(userPlaces) && userPlaces[i].kind == first.kind && userPlaces[i].by == first.by; i++ {
			names = append(names, "`~/"+userPlaces[i].path+"`")
		}
		refused := "writable"
		if first.kind.reads {
			refused = "always"
		}
		var caches []string
		for _, c := range first.caches {
			caches = append(caches, "`"+c+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", strings.Join(names, ", "), first.kind.why, first.by, refused, strings.Join(caches, ", "))
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
