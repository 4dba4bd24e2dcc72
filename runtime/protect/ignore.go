package protect

import (
	"path"
	"strings"
)

// ignoreFile has patterns of the files that git ignores (gitignore(5)).
const ignoreFile = ".gitignore"

// An ignoreRule is a line of such a file. A jail may write the file: the names in an ignored
// directory are searched as all others are, and only count less.
type ignoreRule struct {
	dir     string // of the file
	pattern string
	any     bool // below dir at any depth
	keep    bool // a "!" before it
}

// Bounds of reading such files.
const (
	maxIgnore      = 64 << 10
	maxIgnoreRules = 500
)

// ignoreRules reads a directory's file.
func (s *search) ignoreRules(dir string) []ignoreRule {
	text, _, err := s.read(below(dir, ignoreFile), maxIgnore)
	if err != nil {
		return nil
	}
	var out []ignoreRule
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		r := ignoreRule{dir: dir}
		line, r.keep = strings.CutPrefix(line, "!")
		line = strings.TrimSuffix(line, "/")
		line, r.any = strings.CutPrefix(line, "**/")
		r.any = r.any || !strings.Contains(line, "/")
		r.pattern = strings.TrimPrefix(line, "/")
		if r.pattern == "" || strings.HasPrefix(r.pattern, "#") || len(out) >= maxIgnoreRules {
			continue
		}
		out = append(out, r)
	}
	return out
}

// ignores reports whether the last rule that fits a directory leaves it out.
func ignores(rules []ignoreRule, rel string) bool {
	ignored := false
	for _, r := range rules {
		name := rel
		if r.dir != "." {
			name = strings.TrimPrefix(rel, r.dir+"/")
		}
		if parts := strings.Split(name, "/"); r.any {
			name = path.Join(parts[max(0, len(parts)-1-strings.Count(r.pattern, "/")):]...)
		}
		if ok, _ := path.Match(r.pattern, name); ok {
			ignored = !r.keep
		}
	}
	return ignored
}
