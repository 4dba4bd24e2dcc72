package lint

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// codeWords are the words of a page's line that are set as code.
var codeWords = regexp.MustCompile("`([^`]+)`")

// section is the part of a page below a heading, up to the next heading of any level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text := env.Read(t, filepath.Join(top, page))
	_, rest, ok := strings.Cut(string(text), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	rest, _, _ = strings.Cut(rest, "\n#")
	return rest
}

// words are the code words of a text, each as a path within the repository or a package's name.
func words(text string) []string {
	var out []string
	for _, m := range codeWords.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// roomsOf maps each directory in the first column of the table of docs/architecture.md to the words
// of its row.
func roomsOf(t *testing.T) map[string][]string {
	rooms := make(map[string][]string)
	for line := range strings.Lines(section(t, "docs/architecture.md", "## Where things are")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, dir := range words(cells[1]) {
			rooms[dir] = words(cells[2])
		}
	}
	return rooms
}

// TestArchitectureRooms: docs/architecture.md names each room of the product, and in a room's row each
// package directly in the room. What is deeper belongs to the package that is named.
func TestArchitectureRooms(t *testing.T) {
	rooms := roomsOf(t)
	named := slices.Collect(maps.Keys(rooms))
	for _, dir := range named {
		if info, err := os.Stat(filepath.Join(top, dir)); err != nil || !info.IsDir() {
			t.Errorf("docs/architecture.md names %s, which is no directory", dir)
		}
	}
	seen := make(map[string]bool)
	for _, f := range goFiles(t, []string{"cmd", "runtime", "seccomp", "shim", "apparmor"}, false, 200) {
		dir := filepath.Dir(f.rel)
		if seen[dir] {
			continue
		}
		seen[dir] = true
		room := dir
		for room != "." && !slices.Contains(named, room) {
			room = filepath.Dir(room)
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(dir, room), "/")
		name, _, _ := strings.Cut(rest, "/")
		switch {
		case room == ".":
			t.Errorf("docs/architecture.md names no room of %s", dir)
		case name != "" && !slices.Contains(rooms[room], name):
			t.Errorf("docs/architecture.md does not name %s in the row of %s", name, room)
		}
	}
}

// TestContributingTasks: the files that CONTRIBUTING.md names as answers to a newcomer's questions are
// there.
func TestContributingTasks(t *testing.T) {
	n := 0
	for line := range strings.Lines(section(t, "CONTRIBUTING.md", "## Which file")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.Contains(line, "---") || strings.Contains(line, "| to |") {
			continue
		}
		n++
		files := words(cells[2])
		if len(files) == 0 {
			t.Errorf("CONTRIBUTING.md names no file for %s", cells[1])
		}
		for _, file := range files {
			if _, err := os.Stat(filepath.Join(top, file)); err != nil {
				t.Errorf("CONTRIBUTING.md: %v", err)
			}
		}
	}
	if n != 10 {
		t.Errorf("CONTRIBUTING.md has %d tasks of newcomers, want 10", n)
	}
}
