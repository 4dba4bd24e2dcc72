package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUnits: systemd reads each unit without a complaint, and agentjail has the command and the
// options that it starts.
func TestUnits(t *testing.T) {
	units, err := filepath.Glob(filepath.Join(top, "hack/systemd/*.service"))
	if err != nil || len(units) < 3 {
		t.Fatalf("%q, %v", units, err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/(\S+)(.*)$`)
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		m := start.FindStringSubmatch(string(text))
		if m == nil {
			t.Errorf("%s starts nothing", unit)
			continue
		}
		if problem := unknown(newApp(), strings.Fields(m[2])); m[1] == "agentjail" && problem != "" {
			t.Errorf("%s: %s: %s", unit, m[0], problem)
		}
		tool, err := exec.LookPath("systemd-analyze")
		if err != nil {
			continue // not on every machine
		}
		copied := filepath.Join(t.TempDir(), filepath.Base(unit))
		// Neither the programs nor their pages are installed.
		there := start.ReplaceAllString(regexp.MustCompile(`(?m)^Documentation=.*\n`).ReplaceAllString(string(text), ""), "ExecStart=/bin/true$2")
		if err := os.WriteFile(copied, []byte(there), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(tool, "verify", copied).CombinedOutput(); err != nil || strings.Contains(string(out), filepath.Base(unit)) {
			t.Errorf("%s: %v: %s", unit, err, out)
		}
	}
}
