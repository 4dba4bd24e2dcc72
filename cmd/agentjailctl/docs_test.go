package main

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/spec/lazyregexp"
)

// top is the root of the module as seen from this package's tests.
const top = "../.."

// defaultWords is the most words of a page that pageWords does not list, and docsWords of the README and docs together.
const (
	defaultWords = 570
	docsWords    = 34000
)

var pageWords = map[string]int{
	"CHANGELOG.md":                      490,
	"CONTRIBUTING.md":                   1260,
	"README.md":                         700,
	"docs/architecture.md":              1450,
	"docs/boundaries.md":                970,
	"docs/compatibility.md":             800,
	"docs/configuration.md":             1270,
	"docs/credentials.md":               970,
	"docs/differences.md":               730,
	"docs/engines.md":                   720,
	"docs/host-limits.md":               1720,
	"docs/install/kubernetes.md":        950,
	"docs/journal.md":                   1800,
	"docs/mounts.md":                    1630,
	"docs/network.md":                   1700,
	"docs/protected-paths.md":           1760,
	"docs/receipt.md":                   730,
	"docs/seccomp.md":                   1450,
	"docs/security/cve-track-record.md": 670,
	"docs/security/ebpf.md":             920,
	"docs/security/protections.md":      1010,
	"docs/why.md":                       1950,
	"docs/workspace.md":                 850,
}

// pages are the texts that people read, by path below top.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	add := func(path string) {
		text, err := os.ReadFile(filepath.Join(top, path))
		if err != nil {
			t.Fatal(err)
		}
		out[path] = string(text)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "hack/selinux/README.md"} {
		add(name)
	}
	err := filepath.WalkDir(filepath.Join(top, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			rel, rerr := filepath.Rel(top, path)
			if rerr != nil {
				return rerr
			}
			add(rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Patterns, made when a test needs them: TestLittleHappensBeforeMain holds this package to that.
var (
	fence    = lazy("(?ms)^```[a-z]*\n.*?^```$")
	codeSpan = lazy("`[^`\n]*`")
	link     = lazy(`\]\(([^)\s]+)\)`)
	testLink = lazy(`\[(Test\w+)\]\(([^)]+_test\.go)\)`)
	heading  = lazy(`(?m)^#{1,6} +(.*)$`)
	anchorID = lazy(`<a id="([^"]+)">`)
	markup   = lazy(`\[([^]]*)\]\([^)]*\)`)
	noSlug   = lazy(`[^\p{L}\p{N}_ -]`)
)

func lazy(expr string) func() *regexp.Regexp {
	return lazyregexp.New(expr)
}

// anchors are the fragments that a page has: those that GitHub makes of headings, and those written into it.
func anchors(text string) []string {
	var out []string
	for _, m := range heading().FindAllStringSubmatch(fence().ReplaceAllString(text, ""), -1) {
		title := strings.ToLower(strings.TrimSpace(markup().ReplaceAllString(m[1], "$1")))
		out = append(out, strings.ReplaceAll(noSlug().ReplaceAllString(title, ""), " ", "-"))
	}
	for _, m := range anchorID().FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// TestDocsLinks: every link between pages and to files resolves, with its anchor.
func TestDocsLinks(t *testing.T) {
	all := pages(t)
	n := 0
	for path, text := range all {
		prose := codeSpan().ReplaceAllString(fence().ReplaceAllString(text, ""), "")
		for _, m := range link().FindAllStringSubmatch(prose, -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: link %s: %v", path, m[1], err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			n++
			target := path
			if u.Path != "" {
				target = filepath.Join(filepath.Dir(path), u.Path)
			}
			if _, err := os.Stat(filepath.Join(top, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, m[1])
				continue
			}
			if u.Fragment != "" && !slices.Contains(anchors(all[target]), u.Fragment) {
				t.Errorf("%s links to %s: %s has no such heading", path, m[1], target)
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d links were found", n)
	}
}

// TestDocsNameTests: every test that a page names is in the file that it links to.
func TestDocsNameTests(t *testing.T) {
	n := 0
	for path, text := range pages(t) {
		for _, m := range testLink().FindAllStringSubmatch(text, -1) {
			n++
			code, err := os.ReadFile(filepath.Join(top, filepath.Dir(path), m[2]))
			if err != nil || !strings.Contains(string(code), "\nfunc "+m[1]+"(") {
				t.Errorf("%s names %s in %s, which does not exist", path, m[1], m[2])
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d links to tests were found", n)
	}
}

// callOf finds a call of agentjail at the beginning of a command.
var callOf = lazy(`(?:^|[\s;&|(])(?:\./bin/|bin/)?agentjail ([^\n#;|&)]*)`)

// TestDocsNameCommands: the commands in code name verbs and options that exist.
func TestDocsNameCommands(t *testing.T) {
	app := newApp()
	n := 0
	for path, text := range pages(t) {
		for _, line := range codeLines(text) {
			m := callOf().FindStringSubmatch(line)
			if m == nil || !commandLine(line) {
				continue
			}
			n++
			if problem := unknown(app, strings.Fields(m[1])); problem != "" {
				t.Errorf("%s: `%s`: %s", path, line, problem)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d commands were found", n)
	}
}

// codeLines are the lines of a page's code blocks, and its code spans.
func codeLines(text string) []string {
	var out []string
	for _, block := range fence().FindAllString(text, -1) {
		out = append(out, strings.Split(block, "\n")...)
	}
	for _, span := range codeSpan().FindAllString(fence().ReplaceAllString(text, ""), -1) {
		out = append(out, strings.Trim(span, "`"))
	}
	return out
}

// commandLine reports whether agentjail is what a line calls, rather than an argument or a picture.
func commandLine(line string) bool {
	before, _, _ := strings.Cut(line, "agentjail ")
	before = strings.TrimSpace(before)
	return before == "" || before == "sudo" || strings.HasSuffix(before, "&&") || strings.HasSuffix(before, "&& sudo")
}

// unknown reports which word of a command line is neither a command nor an option.
func unknown(app *cli.App, words []string) string {
	known, commands := options(app.Flags, map[string]bool{"help": false, "h": false, "version": false, "v": false}), app.Commands
	found, runs, value := false, false, false
	for _, w := range words {
		if value {
			value = false
			continue
		}
		if w == "--" {
			return ""
		}
		if name, isFlag := strings.CutPrefix(w, "-"); isFlag {
			name, _, given := strings.Cut(strings.TrimPrefix(name, "-"), "=")
			takes, ok := known[name]
			if !ok {
				return "there is no option " + w
			}
			value = takes && !given
			continue
		}
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == w })
		if i < 0 {
			if !found {
				return "there is no command " + w
			}
			commands = nil // an argument
			if runs {
				return "" // what follows is another program's
			}
			continue
		}
		found, runs = true, strings.HasSuffix(commands[i].ArgsUsage, "COMMAND [ARG...]")
		known = options(commands[i].Flags, known)
		commands = commands[i].Subcommands
	}
	return ""
}

// options adds flags to what is known: whether each takes a value.
func options(flags []cli.Flag, known map[string]bool) map[string]bool {
	for _, f := range flags {
		_, isSwitch := f.(*cli.BoolFlag)
		for _, name := range f.Names() {
			known[name] = !isSwitch
		}
	}
	return known
}

// TestDocsNameTasks: the tasks that pages call are in the Makefile.
func TestDocsNameTasks(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`^(?:.*&& )?make ([a-z0-9-]+)`)
	n := 0
	for path, text := range pages(t) {
		for _, line := range codeLines(text) {
			m := call.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				continue
			}
			n++
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s: `%s`: the Makefile has no task %s", path, line, m[1])
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d tasks were found", n)
	}
}

// TestPageWords: no page is longer than it may be, nor are all together. A page that outgrows its limit is cut, or split by what readers look for, before its
// number is raised.
func TestPageWords(t *testing.T) {
	sum := 0
	for path, text := range pages(t) {
		n, most := len(strings.Fields(text)), defaultWords
		if path == "README.md" || strings.HasPrefix(path, "docs/") {
			sum += n
		}
		if m, ok := pageWords[path]; ok {
			most = m
		}
		if n > most {
			t.Errorf("%s has %d words, its limit is %d", path, n, most)
		}
	}
	if sum > docsWords {
		t.Errorf("README.md and docs have %d words together, their limit is %d", sum, docsWords)
	}
}

// TestDocsListed: docs/README.md lists each page below docs once.
func TestDocsListed(t *testing.T) {
	all := pages(t)
	links := make(map[string]int)
	for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(all["docs/README.md"], -1) {
		links[path.Join("docs", m[1])]++
	}
	for page := range all {
		if strings.HasPrefix(page, "docs/") && page != "docs/README.md" && links[page] != 1 {
			t.Errorf("docs/README.md lists %s %d times", page, links[page])
		}
	}
}
