package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/policy"
)

// TestSandboxes: a sandbox that policy names is shown with its release, and one older than the tests'
// is a warning.
func TestSandboxes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a delegate must be root's")
	}
	dir, err := os.MkdirTemp("/var/tmp", "agentjail-check-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "runsc")
	for version, want := range map[string]struct {
		ok   bool
		text string
	}{
		"release-20990101.0": {true, "gvisor sandbox, platform systrap"},
		"release-20200101.0": {false, "older than"},
		"VERSION_MISSING":    {false, "not known"},
	} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho runsc version "+version+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		a := sandboxes(&env{policy: policy.Policy{Delegate: path}})
		if a.ok != want.ok || a.warn == want.ok || !strings.Contains(a.detail, want.text) || !strings.Contains(a.detail, "not supported") {
			t.Errorf("%s: %+v", version, a)
		}
	}
	if a := sandboxes(&env{policy: policy.Policy{Delegate: "auto"}}); !a.ok && !a.warn {
		t.Errorf("where policy names none: %+v", a)
	}
}
