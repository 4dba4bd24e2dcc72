package e2e

import (
	"os"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// TestApt: apt of an untouched Debian image updates its lists in a jail, where it cannot become another user. What tells it
// so is in no layer of the engine's, and an image's own setting stays.
func TestApt(t *testing.T) {
	needAgentjail(t)
	if _, err := os.Stat("/usr/bin/apt-get"); err != nil {
		t.Skip("no apt on this machine:", err)
	}
	d := d(t)
	if err := docker.ImportApt(); err != nil {
		t.Fatal(err)
	}
	has(t, "apt's setting", mustRun(d, engine.Apt, "apt-config", "dump", "APT::Sandbox::User"), `APT::Sandbox::User "root";`)
	id := d.Detached(jail, "--entrypoint", "", engine.Apt, "apt-get", "-q", "update")
	code := d.Must("wait", id)
	logs := d.Docker("logs", id)
	if code != "0" || strings.Contains(logs.Stdout+logs.Stderr, "setgroups") || strings.Contains(logs.Stdout+logs.Stderr, "E: ") {
		t.Errorf("apt-get update ends with %s: %s", code, logs)
	}
	upper := d.Must("inspect", "--format", "{{.GraphDriver.Data.UpperDir}}", id)
	if _, err := os.Lstat(upper + "/etc/apt"); err == nil {
		t.Error("the engine's layer has apt's setting")
	}
}
