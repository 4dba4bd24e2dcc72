package facts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExplainProtected: explain reports what of a mounted directory would be protected, and makes
// nothing there.
func TestExplainProtected(t *testing.T) {
	for _, c := range []struct {
		protect bool
		want    string
	}{{true, "protected paths: 1 read-only"}, {false, ""}} {
		r := explainer(t)
		r.Policy.Binds.Protect, r.Policy.Binds.Root = c.protect, "allow"
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ".mcp.json"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		x, err := r.Explain(explainBundle(t, fmt.Sprintf(`{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/w", "type": "bind", "source": %q, "options": ["rbind"]}`, dir)))
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, ch := range x.Report.Changes {
			if ch.Field == "mounts[/w]" && strings.Contains(ch.Now, "protected") {
				said = append(said, ch.Now)
			}
		}
		if got := strings.Join(said, "\n"); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("protect %v: %q", c.protect, got)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("made: %v, %v", names, err)
		}
	}
}
