package crash

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestEveryStepIsTried: a step that is named in the source is in the list of those at which the runtime is killed.
func TestEveryStepIsTried(t *testing.T) {
	root := env.Get(t, engine.ModuleRoot)
	call := regexp.MustCompile(`crash\.Point\("([^"]+)"\)`)
	var named, tried []string
	for _, dir := range []string{"runtime", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(p string, e fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(p, ".go") {
				return err
			}
			text, err := os.ReadFile(p)
			for _, m := range call.FindAllStringSubmatch(string(text), -1) {
				named = append(named, m[1])
			}
			return err
		})
		env.Check(t, err)
	}
	for _, p := range engine.CrashPoints {
		tried = append(tried, p.Point)
	}
	for _, p := range engine.ReviewCrashPoints { // TestKilledInReview
		tried = append(tried, p.Point)
	}
	for _, p := range engine.DiskCrashPoints { // TestKilledOnDisk
		tried = append(tried, p.Point)
	}
	tried = append(tried, engine.HookCrashPoints...)   // TestKilledAtTheEngine
	tried = append(tried, engine.HelperCrashPoints...) // TestKilledWithHelper, and tests/names
	slices.Sort(named)
	slices.Sort(tried)
	if !slices.Equal(slices.Compact(named), tried) {
		t.Errorf("named in the source: %v; tried: %v", named, tried)
	}
}
