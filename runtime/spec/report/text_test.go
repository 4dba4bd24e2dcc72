package report

import (
	"bytes"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/rings"
)

// TestTextEscapes: names in a bundle are somebody else's, and must neither
// steer the terminal nor pass for further lines.
func TestTextEscapes(t *testing.T) {
	var r Report
	r.Add(Change{Ring: rings.Access, Kind: Denied, Field: "mounts[/a\x1b[2J]", Was: "x\n  set      forged", Now: "y", Why: "z"})
	var b bytes.Buffer
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(b.String(), '\x1b') || strings.Contains(b.String(), "\n  set ") {
		t.Errorf("unescaped: %q", b.String())
	}
	if want := `mounts[/a\x1b[2J]: x\x0a  set      forged -> y (z)`; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in %q", want, b.String())
	}
}
