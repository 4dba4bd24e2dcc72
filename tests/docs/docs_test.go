package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// TestPlays runs the commands of the table.
func TestPlays(t *testing.T) {
	engine.NeedsRoot(t, "it runs jails")
	for _, p := range plays {
		t.Run(p.name, func(t *testing.T) {
			s := newStage(t)
			p.set(s)
			for _, r := range p.rows {
				s.run(r)
			}
		})
	}
}

// TestEveryCommand: a test runs every command of every page, and each row of the table has a page.
func TestEveryCommand(t *testing.T) {
	left := map[string]bool{}
	for _, p := range plays {
		for _, r := range p.rows {
			left[r.command] = true
		}
	}
	for command, at := range elsewhere {
		left[command] = true
		if text, err := os.ReadFile(filepath.Join(Top, at.file)); err != nil || !strings.Contains(string(text), at.text) {
			t.Errorf("`%s` is not run by %s: it has no %q (%v)", command, at.file, at.text, err)
		}
	}
	run := slices.Collect(maps.Keys(left))
	lanes := lanes(t)
	for _, page := range Pages(t) {
		for _, c := range Commands(t, page) {
			if task := strings.TrimPrefix(c.Text, "make "); lanes[task] {
				continue
			}
			if delete(left, c.Text); slices.Contains(run, c.Text) {
				continue
			}
			// A command that is the beginning of another names what that one does.
			if !slices.ContainsFunc(run, func(r string) bool { return strings.HasPrefix(r, c.Text+" ") }) {
				t.Errorf("%s: no test runs `%s` (remedy: a row in tests/docs/table_test.go)", page, c.Text)
			}
		}
	}
	for command := range left {
		t.Errorf("the table has `%s`, and no page has it", command)
	}
}

// lanes are the tasks of the Makefile that `make test` runs, by what follows make.
func lanes(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):(.*\n(?:\t.*\n)*)`).FindAllStringSubmatch(string(text), -1) {
		rules[m[1]] = m[2]
	}
	call := regexp.MustCompile(`(?:\$\(call lane,|\$\(MAKE\) )([a-z0-9-]+)`)
	out := map[string]bool{}
	var reach func(task string)
	reach = func(task string) {
		rule, is := rules[task]
		if !is || out[task] {
			return
		}
		out[task] = true
		needs, _, _ := strings.Cut(rule, "#")
		needs, _, _ = strings.Cut(needs, "\n")
		for _, task := range strings.Fields(needs) {
			reach(task)
		}
		for _, m := range call.FindAllStringSubmatch(rule, -1) {
			reach(m[1])
		}
	}
	reach("test")
	return out
}
