package lint

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"agentjail.dev/tests/env"
)

var update = flag.Bool("update", false, "lower the numbers of testdata/words.txt to today's")

// speech are verbs of speech, which stand for technical acts (return, report, record, send,
// request), and pronouns for persons where a process or a user is meant.
var speech = regexp.MustCompile(`(?i)\b(tell|tells|telling|told|say|says|saying|said|ask|asks|asking|asked|lend|lends|lending|lent|nobody|whoever)\b`)

// account is the user nobody as files and policies have it, and policies' value "ask".
var account = regexp.MustCompile(`\\?"(?:nobody|ask)\\?"|\bnobody:x:\S*`)

// clause is a sentence of a page whose subject is a clause (CONTRIBUTING, Style).
var clause = regexp.MustCompile(`(^|[.:;!] |^\s*- |\| )(What|Who|Whoever|Whatever) [a-z][^?|]*([.:,|]|$)`)

// subject is a sentence of a comment whose subject is a clause, but for "What is", the comment of
// an identifier of that name.
var subject = regexp.MustCompile(`(^// |[.;] )(What|Who|Whoever|Whatever|That the|That it|That no) [a-z]`)

// TestCommentSubjects: no comment of the product has a sentence whose subject is a clause.
func TestCommentSubjects(t *testing.T) {
	for line, want := range map[string]bool{
		"// What is left goes.": true, "// It ends. What remains is void.": true, "// That it is not there is no error.": true,
		"// It returns what is left.": false, "// That file is left.": false,
	} {
		if subject.MatchString(line) != want {
			t.Errorf("%q: %v", line, !want)
		}
	}
	for _, f := range goFiles(t, []string{"runtime", "seccomp", "apparmor", "shim", "cmd"}, false, 300) {
		n := 0
		for line := range strings.Lines(string(env.Read(t, f.path))) {
			n++
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "// ") && subject.MatchString(line) && !strings.HasPrefix(line, "// What is ") {
				t.Errorf("%s:%d: the subject is a clause (CONTRIBUTING, Style): %s", f.rel, n, line)
			}
		}
	}
}

// maxComment is how many columns a line of a comment has at most, with tabs of four.
const maxComment = 100

// A tally is what one directory still has: lines with words of speech, and comments that are too
// wide.
type tally struct{ speech, wide int }

// TestPlainWords: no directory has more of either than testdata/words.txt allows it. The numbers
// may only fall. -update lowers them.
func TestPlainWords(t *testing.T) {
	const table = "testdata/words.txt"
	allowed, found, places := readTallies(t, table), map[string]*tally{}, map[string][]string{}
	add := func(rel string, words, wide []string) {
		dir := room(rel)
		if found[dir] == nil {
			found[dir] = &tally{}
		}
		found[dir].speech += len(words)
		found[dir].wide += len(wide)
		for _, p := range append(words, wide...) {
			places[dir] = append(places[dir], rel+":"+p)
		}
	}
	for _, file := range goFiles(t, []string{"runtime", "seccomp", "apparmor", "shim", "cmd", "hack"}, false, 300) {
		words, wide := ofGo(t, file.path, nil)
		add(file.rel, words, wide)
	}
	for _, file := range append(goFiles(t, everywhere, true, 500, "hack/tools"), goFiles(t, []string{"tests"}, false, 50)...) {
		if file.rel == self {
			continue
		}
		words, _ := ofGo(t, file.path, nil)
		add(file.rel, append(words, ofNames(t, file.path, nil)...), nil)
	}
	for _, rel := range pages(t) {
		text := env.Read(t, filepath.Join(top, rel))
		add(rel, ofPage(string(text)), nil)
	}
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		n, most := *found[dir], allowed[dir]
		if n.speech > most.speech || n.wide > most.wide {
			t.Errorf("%s: %d lines with words of speech and %d wide comments, of at most %d and %d. Among these lines are the new ones:\n%s",
				dir, n.speech, n.wide, most.speech, most.wide, strings.Join(places[dir], "\n"))
		}
		allowed[dir] = tally{min(n.speech, most.speech), min(n.wide, most.wide)}
	}
	if *update {
		writeTallies(t, table, allowed, found)
	}
}

// self is this file, which quotes the words.
const self = "hack/lint/words_test.go"

// room is the row of the table that counts a file.
func room(rel string) string {
	p := strings.Split(rel, "/")
	if strings.HasSuffix(rel, "_test.go") || p[0] == "tests" {
		return "tests"
	}
	if len(p) > 2 && (p[0] == "runtime" || p[0] == "cmd") {
		return p[0] + "/" + p[1]
	}
	return p[0]
}

// pages lists the documentation.
func pages(t *testing.T) []string {
	out := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		names, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(names), err)
		}
		for _, n := range names {
			rel, err := filepath.Rel(top, n)
			env.Check(t, err)
			out = append(out, filepath.ToSlash(rel))
		}
	}
	return out
}

// ofGo lists lines of a Go file with words of speech in comments or messages, and comment lines
// that are too wide. A message is a string with a blank in it.
func ofGo(t *testing.T, path string, src []byte) (words, wide []string) {
	t.Helper()
	if src == nil {
		var err error
		if src, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, src, parser.ParseComments|parser.SkipObjectResolution)
	env.Check(t, err)
	if ast.IsGenerated(f) {
		return nil, nil
	}
	lines := strings.Split(string(src), "\n")
	look := func(pos token.Pos, text string) {
		first := set.Position(pos).Line
		for i, l := range strings.Split(text, "\n") {
			if speech.MatchString(account.ReplaceAllString(l, "")) {
				words = append(words, fmt.Sprintf("%d: %s", first+i, strings.TrimSpace(l)))
			}
		}
	}
	for _, g := range f.Comments {
		for _, c := range g.List {
			look(c.Pos(), c.Text)
			n := set.Position(c.Pos()).Line
			if l := lines[n-1]; tooWide(l) {
				wide = append(wide, fmt.Sprintf("%d: %s", n, strings.TrimSpace(l)))
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && strings.Contains(s.Value, " ") {
			look(s.Pos(), s.Value)
		}
		return true
	})
	return words, wide
}

// spoken are words of speech within a test's name.
var spoken = regexp.MustCompile(`(Tell|Tells|Told|Say|Says|Said|Ask|Asks|Asked|Lend|Lent|Whoever)([A-Z0-9_]|$)`)

// ofNames lists the tests of a file whose names have words of speech.
func ofNames(t *testing.T, path string, src any) (names []string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, src, parser.SkipObjectResolution)
	env.Check(t, err)
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") && spoken.MatchString(fn.Name.Name) {
			names = append(names, fmt.Sprintf("%d: %s", set.Position(fn.Pos()).Line, fn.Name.Name))
		}
	}
	return names
}

// tooWide reports whether a line is a comment alone, of which some would have to be on the next.
func tooWide(line string) bool {
	text := strings.TrimLeft(line, "\t")
	return strings.HasPrefix(text, "// ") && 4*(len(line)-len(text))+utf8.RuneCountInString(text) > maxComment
}

// code is what a page of Markdown has between backticks on one line.
var code = regexp.MustCompile("`[^`]*`")

// ofPage lists lines of a page with words of speech outside of code, or with a clause as a subject.
func ofPage(text string) (words []string) {
	fenced := false
	for i, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(l), "```") {
			fenced = !fenced
			continue
		}
		if l := code.ReplaceAllString(l, "`x`"); !fenced && (speech.MatchString(account.ReplaceAllString(l, "")) || clause.MatchString(l)) {
			words = append(words, fmt.Sprintf("%d: %s", i+1, l))
		}
	}
	return words
}

func readTallies(t *testing.T, path string) map[string]tally {
	t.Helper()
	text := env.Read(t, path)
	out := map[string]tally{}
	for l := range strings.Lines(string(text)) {
		var dir string
		var n tally
		if l[0] == '#' {
			continue
		}
		if _, err := fmt.Sscan(l, &dir, &n.speech, &n.wide); err != nil {
			t.Fatalf("%s: %q: %v", path, l, err)
		}
		out[dir] = n
	}
	return out
}

// writeTallies leaves out directories that have nothing, which allows them nothing, and those that
// are gone.
func writeTallies(t *testing.T, path string, allowed map[string]tally, found map[string]*tally) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# directory, lines with words of speech, wide comment lines (hack/lint/words_test.go)\n")
	for _, dir := range slices.Sorted(maps.Keys(allowed)) {
		if n := allowed[dir]; found[dir] != nil && n != (tally{}) {
			fmt.Fprintf(&b, "%s %d %d\n", dir, n.speech, n.wide)
		}
	}
	env.Check(t, os.WriteFile(path, []byte(b.String()), 0o644))
}

// TestFindsWords: words of speech are found in comments, messages and prose, and not in keys or
// code; wide comments are found.
func TestFindsWords(t *testing.T) {
	src := "package p\n\n// A tells B.\nvar A = \"told\" // not a message\n\n// B is as A told\n// it to be.\nvar B = \"nobody is here\"\n\n// " +
		strings.Repeat("x ", 50) + "\nvar C = `a\nb said c`\n"
	words, wide := ofGo(t, "p.go", []byte(src))
	if got, want := len(words), 4; got != want {
		t.Errorf("%d lines with words of speech, not %d: %q", got, want, words)
	}
	if len(wide) != 1 || !strings.HasPrefix(wide[0], "10:") {
		t.Errorf("wide comments: %q", wide)
	}
	names := "package p\n\nfunc TestItTells() {}\n\nfunc TestAskedTwice() {}\n\nfunc TestTask() {}\n\nfunc Says() {}\n"
	if got := ofNames(t, "p_test.go", names); len(got) != 2 {
		t.Errorf("names: %q", got)
	}
	page := "It asks.\n\n```\nask\n```\n\n`tell` is a key.\nThe other says `x`.\n## What it is\nIt ends. What remains is void.\n"
	if got := ofPage(page); len(got) != 3 {
		t.Errorf("in a page: %q", got)
	}
}
