package lint

import (
	"regexp"
	"testing"

	"agentjail.dev/tests/env"
)

// comparesPaths is a comparison of paths that has to be written twice, for the directory itself
// and for what lies below, and that fails for the root.
var comparesPaths = regexp.MustCompile(`strings\.(HasPrefix|CutPrefix)\([^)]*\+ ?"/"\)`)

// TestPathsAreCompared by package pathname alone.
func TestPathsAreCompared(t *testing.T) {
	for _, bad := range []string{`strings.HasPrefix(path, dir+"/")`, `strings.CutPrefix(m.Path, list[i].Path+"/")`, `strings.HasPrefix(rel+"/", t.end+"/")`} {
		if !comparesPaths.MatchString(bad) {
			t.Errorf("the lint does not find %s", bad)
		}
	}
	skip := []string{"hack/tools", "hack/lint"}
	for _, f := range append(goFiles(t, everywhere, false, 400, skip...), goFiles(t, everywhere, true, 200, skip...)...) {
		text := env.Read(t, f.path)
		for _, m := range comparesPaths.FindAllString(string(text), -1) {
			t.Errorf("%s: %s: runtime/kernel/pathname has Within, Below and Rel", f.rel, m)
		}
	}
}
