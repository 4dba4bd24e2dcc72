package e2e

import (
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestSymptomsAreDocumented: docs/compatibility.md and docs/why.md have the messages that are met.
func TestSymptomsAreDocumented(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	var pages []byte
	for _, page := range []string{"compatibility", "why"} {
		text := env.Read(t, "../../docs/"+page+".md")
		pages = append(pages, text...)
	}
	dir := directory(t, 1000)
	for _, s := range engine.Symptoms {
		r := d.Docker(append([]string{"run", "--rm", jail}, s.Args(dir)...)...)
		if err := s.Met(r); err != nil {
			t.Error(err)
		}
		if strings.Trim(s.Says, "01\n") != "" && !strings.Contains(string(pages), s.Says) {
			t.Errorf("neither page has %q", s.Says)
		}
	}
}
