package version

import (
	"bytes"
	"strings"
	"testing"
)

// TestPrint: the lines that dockerd looks for are there (moby daemon/info_unix.go,
// parseRuntimeVersion).
func TestPrint(t *testing.T) {
	defer func() { Commit = "" }()
	for _, set := range []string{"", "0123456789abcdef"} {
		Commit = set
		var out bytes.Buffer
		Print(&out)
		lines := strings.Split(out.String(), "\n")
		if !strings.HasPrefix(lines[0], "agentjail version ") || !strings.HasPrefix(lines[1], "commit: ") || len(lines[1]) <= len("commit: ") {
			t.Errorf("with commit %q:\n%s", set, &out)
		}
		if set != "" && lines[1] != "commit: "+set {
			t.Errorf("%s, not the commit %s", lines[1], set)
		}
	}
}
