package lint

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pageWords are the most words that a page may have, where it is not defaultWords; totalWords are those of all pages together. A page
// that outgrows its limit is cut, or split by what readers look for, before its number is raised.
const (
	defaultWords = 1250
	totalWords   = 34000
)

var pageWords = map[string]int{
	"CHANGELOG.md":                      4000,
	"README.md":                         700,
	"docs/architecture.md":              1700,
	"docs/install/kubernetes.md":        1500,
	"docs/journal.md":                   2300,
	"docs/mounts.md":                    2000,
	"docs/network.md":                   2100,
	"docs/protected-paths.md":           1800,
	"docs/seccomp.md":                   1800,
	"docs/security/cve-track-record.md": 2500,
	"docs/security/ebpf.md":             1500,
	"docs/why.md":                       2700,
}

// pages are what people read, by their path from the top.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	add := func(rel string) {
		text, err := os.ReadFile(filepath.Join(top, rel))
		if err != nil {
			t.Fatal(err)
		}
		out[rel] = string(text)
	}
	for _, rel := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} {
		add(rel)
	}
	err := fs.WalkDir(os.DirFS(top), "docs", func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".md") {
			add(p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d pages", len(out))
	}
	return out
}

// TestPageWords: no page is longer than it may be.
func TestPageWords(t *testing.T) {
	total := 0
	for rel, text := range pages(t) {
		n, most := len(strings.Fields(text)), defaultWords
		if m, ok := pageWords[rel]; ok {
			most = m
		}
		if n > most {
			t.Errorf("%s has %d words, its limit is %d", rel, n, most)
		}
		if strings.HasPrefix(rel, "docs/") || rel == "README.md" {
			total += n
		}
	}
	if total > totalWords {
		t.Errorf("README and docs have %d words, the limit is %d", total, totalWords)
	}
}

var (
	linkPattern   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	anchorPattern = regexp.MustCompile(`<a id="([^"]+)"`)
	markup        = regexp.MustCompile("[^a-z0-9 _-]")
)

// anchors are the places of a page that a link can name: its headings, as GitHub names them, and its <a id>.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if title := strings.TrimLeft(line, "#"); !fenced && title != line && strings.HasPrefix(title, " ") {
			title = regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(title, "")
			out[strings.ReplaceAll(markup.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")] = true
		}
	}
	for _, m := range anchorPattern.FindAllStringSubmatch(text, -1) {
		out[m[1]] = true
	}
	return out
}

// TestLinks: each link of a page to this repository leads to a file, and to a place in it.
func TestLinks(t *testing.T) {
	all := pages(t)
	links := 0
	for rel, text := range all {
		for _, m := range linkPattern.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			links++
			to := rel
			if target != "" {
				to = path.Join(path.Dir(rel), target)
			}
			if _, err := os.Stat(filepath.Join(top, to)); err != nil {
				t.Errorf("%s: no file %s", rel, m[1])
				continue
			}
			if page, ok := all[to]; ok && anchor != "" && !anchors(page)[anchor] {
				t.Errorf("%s: no place %s", rel, m[1])
			}
		}
	}
	if links < 200 {
		t.Errorf("only %d links were looked at", links)
	}
}
