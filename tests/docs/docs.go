// Package docs holds that every command of the pages is run by a test: its table has each, and its plays run those that no other suite does.
package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// Top is the root of the module as seen from a package of tests.
const Top = "../.."

// A Command is what a page shows for readers to type.
type Command struct {
	Page string // below Top
	Text string // without sudo in front, and without a comment
	Line bool   // of a shell block
}

// Pages are the texts whose commands are run.
func Pages(t testing.TB) []string {
	t.Helper()
	out := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "hack/selinux/README.md"}
	err := filepath.WalkDir(filepath.Join(Top, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			out = append(out, strings.TrimPrefix(path, Top+"/"))
		}
		return err
	})
	env.Check(t, err)
	return out
}

var (
	fence   = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")
	span    = regexp.MustCompile("`([^`]+)`")
	comment = regexp.MustCompile(`(^| +)# .*`)
	heredoc = regexp.MustCompile(`<<'?(\w+)'?`)
	// called begins a code span that is a command; the others are names of files, settings and calls.
	called = regexp.MustCompile(`^(agentjail|agentjail-journal|make|go (run|test|generate)) \S`)
	// engines' is whole with an argument: "docker cp" alone names a verb.
	engines = regexp.MustCompile(`^(docker|podman|kubectl|ctr|systemctl) .*([A-Z=:/]|\S \S+ \S+ \S)`)
)

// Text is a whole page.
func Text(t testing.TB, page string) string {
	t.Helper()
	text := env.Read(t, filepath.Join(Top, page))
	return string(text)
}

// Script is what the shell blocks of a page have, in one text.
func Script(t testing.TB, page string) string {
	t.Helper()
	var out strings.Builder
	for _, m := range fence.FindAllStringSubmatch(Text(t, page), -1) {
		switch m[1] {
		case "sh":
			out.WriteString(m[2])
		case "console":
			for line := range strings.Lines(m[2]) {
				if command, is := strings.CutPrefix(line, "$ "); is {
					out.WriteString(command)
				}
			}
		}
	}
	return out.String()
}

// Commands are those of a page: of its shell blocks, then of its text, each once.
func Commands(t testing.TB, page string) []Command {
	t.Helper()
	var out []Command
	add := func(text string, line bool) {
		c := Command{page, strings.TrimPrefix(strings.TrimSpace(text), "sudo "), line}
		if c.Text != "" && !slices.ContainsFunc(out, func(o Command) bool { return o.Text == c.Text }) {
			out = append(out, c)
		}
	}
	open, end := "", ""
	for line := range strings.Lines(Script(t, page)) {
		if end == "" {
			line = comment.ReplaceAllString(strings.TrimSuffix(line, "\n"), "") + "\n"
			if m := heredoc.FindStringSubmatch(line); m != nil {
				end = m[1]
			}
		} else if strings.TrimSpace(line) == end {
			end = ""
		}
		open += line
		if end == "" && !strings.HasSuffix(line, "|\n") && !strings.HasSuffix(line, "\\\n") {
			add(open, true)
			open = ""
		}
	}
	add(open, true)
	for _, m := range span.FindAllStringSubmatch(fence.ReplaceAllString(Text(t, page), ""), -1) {
		s := strings.TrimPrefix(strings.ReplaceAll(strings.Join(strings.Fields(m[1]), " "), `\|`, "|"), "sudo ")
		if called.MatchString(s) || engines.MatchString(s) {
			add(s, false)
		}
	}
	return out
}
