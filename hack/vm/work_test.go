package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

// TestMakeWork: a machine's work disk has what is shared, and of tests and packages only what its
// own steps request.
func TestMakeWork(t *testing.T) {
	shared, dir := t.TempDir(), filepath.Join(t.TempDir(), "work")
	one := step{name: "one", pkg: "tests/a", limit: 8 * time.Minute, under: "under-runc", args: []string{"-test.run=^(A|B)$"}}
	again := step{name: "again", pkg: "tests/a", limit: 8 * time.Minute}
	other := step{name: "other", pkg: "tests/b", packages: true}
	for _, name := range []string{"src/go.mod", "cmd/agentjail", "packages/1/a.deb", one.binary(), other.binary()} {
		env.Check(t, os.MkdirAll(filepath.Join(shared, filepath.Dir(name)), 0o755))
		env.Check(t, os.WriteFile(filepath.Join(shared, name), []byte(name), 0o755))
	}
	env.Check(t, makeWork(shared, dir, kind{}, []step{one, again}))
	for name, want := range map[string]bool{
		"init": true, "src/go.mod": true, "cmd/agentjail": true, "tests/tests-a.test": true, "tests/tests-b.test": false, "packages": false,
		"steps/one": true, "steps/again": true, "steps/other": false,
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v, and it should be there: %v", name, err, want)
		}
	}
	script := env.Read(t, filepath.Join(dir, "steps/one"))
	const want = "cd /work/src/tests/a && exec testlane tests -program -packages tests/a under-runc /work/tests/tests-a.test -test.v -test.timeout=7m0s '-test.run=^(A|B)$'\n"
	if string(script) != want {
		t.Errorf("the step is %q and not %q", script, want)
	}
	order, err := os.ReadFile(filepath.Join(dir, "steps.order"))
	if err != nil || string(order) != "one 960\nagain 960\n" {
		t.Errorf("the order is %q, %v", order, err)
	}
	env.Check(t, os.WriteFile(filepath.Join(dir, "steps.order"), nil, 0o644))
	// The next machine has what the first did not take, and all that both have is still there.
	next := filepath.Join(t.TempDir(), "work")
	env.Check(t, makeWork(shared, next, kind{}, []step{other}))
	var all []string
	_ = filepath.WalkDir(next, func(p string, d os.DirEntry, _ error) error {
		if !d.IsDir() {
			all = append(all, strings.TrimPrefix(p, next+"/"))
		}
		return nil
	})
	if got := strings.Join(all, " "); got != "cmd/agentjail init packages/1/a.deb src/go.mod steps/other steps.order tests/tests-b.test" {
		t.Errorf("the other machine has %s", got)
	}
}
