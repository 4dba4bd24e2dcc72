package e2e

import (
	"os"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// TestSymptoms: the messages that docs/compatibility.md lists are those that are met.
func TestSymptoms(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	text, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := directory(t, 1000)
	for _, s := range engine.Symptoms {
		r := d.Docker(append([]string{"run", "--rm", jail}, s.Args(dir)...)...)
		if err := s.Met(r); err != nil {
			t.Error(err)
		}
		if strings.Trim(s.Says, "01\n") != "" && !strings.Contains(string(text), s.Says) {
			t.Errorf("docs/compatibility.md does not have %q", s.Says)
		}
	}
}
