package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// A reviewed is what `agentjail workspace diff --json` has of a view.
type reviewed struct {
	Changes []struct {
		Path, Conflict string
		Marks          []struct{ Kind, Why string }
	}
	Git []string
}

// marks reports whether something below a directory is marked, or is of a git directory, which is named and not compared.
func (r reviewed) marks(dir string) bool {
	for _, c := range r.Changes {
		if strings.HasPrefix(c.Path, dir) && len(c.Marks) > 0 {
			return true
		}
	}
	for _, g := range r.Git {
		if strings.HasPrefix(g, dir) {
			return true
		}
	}
	return false
}

// TestHostileViews: what a jail does in each row reaches a view alone, and is marked there. After an apply without --protected nothing of it
// runs on the host either.
func TestHostileViews(t *testing.T) {
	engine.NeedsViews(t)
	if !has("git") {
		t.Skip("no git on this machine")
	}
	all, p := rows(), newPlace(t, false)
	p.prepare(t, all)
	before := make([]string, len(all))
	for i, r := range all {
		before[i] = state(filepath.Join(p.row(i), r.file))
	}
	policy := settings(t, "workspace.size = \"64MiB\"\nworkspace.files = 16000\n")
	for from := 0; from < len(all); from += perJail {
		dir := filepath.Dir(p.row(from))
		name := filepath.Base(p.dir) + "-" + filepath.Base(dir)
		t.Cleanup(func() { engine.Run(t, bin, "workspace", "discard", name) })
		was := snapshot(t, dir)
		p.plantIn(t, all, from, policy, "--review", "--view", name)
		if is := snapshot(t, dir); is != was {
			t.Errorf("%s was\n%s\nand is\n%s", dir, was, is)
		}
		r := engine.Run(t, bin, "workspace", "diff", "--json", name)
		var review reviewed
		if err := json.Unmarshal([]byte(r.Stdout), &review); err != nil || r.Code != 1 {
			t.Fatalf("%v: %s", err, r)
		}
		for _, c := range review.Changes {
			if c.Conflict != "" {
				t.Errorf("%s: a conflict: %s", c.Path, c.Conflict)
			}
		}
		for i := from; i < min(from+perJail, len(all)); i++ {
			if !review.marks(fmt.Sprint(i) + "/") {
				t.Errorf("%s: %s: nothing is marked: %+v", all[i].mechanism, all[i].key, review)
			}
		}
		if r := engine.Run(t, bin, "workspace", "apply", name); r.Code != 1 {
			t.Fatal(r)
		}
	}
	for i, r := range all {
		// A program of the person's would show no more than the file that it reads, and takes seconds.
		if r.safe = ""; r.need != "" {
			r.run = ""
		}
		t.Run(strings.ReplaceAll(r.mechanism+": "+r.key, "/", "|"), func(t *testing.T) { p.try(t, i, r, before[i]) })
	}
}

// snapshot lists all below a directory, with times of change: what was written to has another one.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, fi os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&b, path, fi.Mode(), fi.Size(), fi.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
