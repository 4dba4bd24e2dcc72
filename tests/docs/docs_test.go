package docs

import (
	"cmp"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// TestDocumentedCommandsWork runs the commands of the table.
func TestDocumentedCommandsWork(t *testing.T) {
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
		if has := cmp.Or(at.text, command); !strings.Contains(Text(t, at.file), has) {
			t.Errorf("%s no longer runs `%s`: it has no %q", at.file, command, has)
		}
	}
	for command, why := range untried {
		left[command] = true
		t.Logf("no test runs `%s`: %s", command, why)
	}
	run := slices.Collect(maps.Keys(left))
	for page, file := range whole {
		if text := Text(t, file); !strings.Contains(text, `"`+page+`"`) || !strings.Contains(text, "docs.Script(") {
			t.Errorf("%s does not run what %s has", file, page)
		}
	}
	for _, page := range Pages(t) {
		for _, c := range Commands(t, page) {
			if c.Line && whole[page] != "" || taskOf(c.Text) != "" {
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

// taskOf returns what follows make in a command, "" for another one. The sources of other projects are not fetched.
func taskOf(command string) string {
	m := regexp.MustCompile(`^(?:git clone https://\S+ dist/suites/\S+ && )?make (\S[^&|]*)$`).FindStringSubmatch(command)
	if m == nil {
		return ""
	}
	return m[1]
}

// TestTasks: `make test` runs the tasks of the Makefile that the pages name, and those that take longer, or change something, have rules that
// make can follow with the page's variables.
func TestTasks(t *testing.T) {
	lanes, n := lanes(t), 0
	makefile := Text(t, "Makefile")
	for _, page := range Pages(t) {
		for _, c := range Commands(t, page) {
			task := taskOf(c.Text)
			if task == "" || lanes[task] {
				continue
			}
			n++
			name, _, _ := strings.Cut(task, " ")
			_, rule, _ := strings.Cut(makefile, "\n"+name+":")
			if rule, _, _ = strings.Cut(rule, "\n\n"); strings.Contains(rule, "$(MAKE)") {
				t.Errorf("%s: `%s`: make -n would run its part", page, c.Text)
				continue
			}
			cmd := exec.Command("sh", "-c", "make -n "+task)
			cmd.Dir = Top
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: `%s`: %v: %s", page, c.Text, err, out)
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d tasks were followed", n)
	}
}

// lanes are the tasks of the Makefile that `make test` runs, by what follows make.
func lanes(t *testing.T) map[string]bool {
	t.Helper()
	text := Text(t, "Makefile")
	rules := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):(.*\n(?:\t.*\n)*)`).FindAllStringSubmatch(text, -1) {
		rules[m[1]] = m[2]
	}
	var here string
	for _, m := range regexp.MustCompile(`(?m)^HERE(?:_PAIRED)? := (.*)$`).FindAllStringSubmatch(text, -1) {
		here += " " + strings.ReplaceAll(m[1], "'", "")
	}
	if here == "" {
		t.Fatal("the Makefile has no HERE, the lanes of test-here")
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
		if strings.Contains(rule, "$(HERE)") {
			needs += here
		}
		for task := range strings.FieldsSeq(needs) {
			reach(task)
		}
		for _, m := range call.FindAllStringSubmatch(rule, -1) {
			reach(m[1])
		}
	}
	reach("test")
	return out
}
