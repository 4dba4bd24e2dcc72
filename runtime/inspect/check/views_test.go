package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// TestViews: the sum of what views take up is shown, with a warning where it is beyond policy's bounds.
func TestViews(t *testing.T) {
	if err := workspace.CheckHost(); err != nil {
		t.Skip(err)
	}
	e := &env{store: state.Store{Root: t.TempDir()}, policy: policy.Default()}
	if a := views(e); !a.ok || a.detail != "none" {
		t.Errorf("%+v", a)
	}
	dir := filepath.Join(workspace.Of(e.store).Dir, "abc")
	for name, text := range map[string]string{"record.json": `{"id": "abc", "state": "ended"}`, "image": strings.Repeat("x", 1<<20)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if a := views(e); !a.ok || !strings.Contains(a.detail, "1, which take up 1MiB of the disk") {
		t.Errorf("%+v", a)
	}
	e.policy.Workspace.KeepSize = 1 << 19
	if a := views(e); !a.warn || !strings.Contains(a.remedy, "discard --expired") {
		t.Errorf("beyond the size: %+v", a)
	}
	e.policy.Workspace.KeepSize = 0
	old := time.Now().Add(-31 * 24 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "record.json"), old, old); err != nil {
		t.Fatal(err)
	}
	if a := views(e); !a.warn || !strings.Contains(a.detail, "1MiB") {
		t.Errorf("beyond the time: %+v", a)
	}
}
