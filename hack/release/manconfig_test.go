package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/spec/policy"
)

// TestConfigManual: the manual page has each key with its default, and troff reads it without a
// complaint.
func TestConfigManual(t *testing.T) {
	page := configManual("1.2.3", time.Unix(0, 0).UTC())
	for _, k := range policy.Keys {
		if !strings.Contains(string(page), "\\fB"+roff(k.Name)+"\\fR = "+roff(k.Default())+"\n") {
			t.Errorf("%s is not in it", k.Name)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		return // not on every machine
	}
	cmd := exec.Command(groff, "-man", "-Tascii", "-ww", "-z")
	cmd.Stdin = bytes.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
