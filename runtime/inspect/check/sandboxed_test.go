package check

import (
	"errors"
	"os"
	"os/exec"
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

// TestSandboxRootless: a machine on which some users have subordinate ids and are kept from user namespaces has a warning with the remedy.
func TestSandboxRootless(t *testing.T) {
	for _, c := range []struct {
		subuid, subgid, max string
		ok                  bool
		detail, remedy      string
	}{
		{"", "", "0", true, "sandboxes are root's", ""},
		{"a:100000:65536\n", "", "15000", true, "sandboxes are root's", ""},
		{"a:100000:999\n#\na:x\n", "a:100000:65536\n", "15000", true, "sandboxes are root's", ""},
		{"a:100000:65536\nb:1:999\nb:1000:1\n", "b:1:2000\na:100000:65536\n", "0", false, "max_user_namespaces is 0", "sudo sysctl user.max_user_namespaces=15000"},
		{"a:100000:65536\nb:1:999\nb:1000:1\n", "b:1:2000\na:100000:65536\n", "15000", true, "(2) can have sandboxes: no limit on memory", ""},
	} {
		etc, proc := t.TempDir(), t.TempDir()
		for path, text := range map[string]string{etc + "/subuid": c.subuid, etc + "/subgid": c.subgid, proc + "/sys/user/max_user_namespaces": c.max} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		a := sandboxRootless(&env{etc: etc, sysctl: filepath.Join(proc, "sys")})
		if _, err := exec.LookPath("newuidmap"); err != nil && c.ok && c.subgid != "" {
			c.ok, c.detail, c.remedy = false, "newuidmap", "uidmap"
		}
		if a.ok != c.ok || a.ok == a.warn || !strings.Contains(a.detail, c.detail) || !strings.Contains(a.remedy, c.remedy) {
			t.Errorf("%+v: %+v", c, a)
		}
	}
}
