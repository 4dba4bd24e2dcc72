package exhaust

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

const corePattern = "/proc/sys/kernel/core_pattern"

// handler sets the host's handler of crashes to one that writes a line for each, and returns a way to count them. It is
// the host's own again after the test.
func handler(t *testing.T) (count func() int) {
	t.Helper()
	if os.Getenv("AGENTJAIL_VM") == "" {
		t.Skip("sets the handler of crashes for all of the host: only in the virtual machine")
	}
	old := env.Read(t, corePattern)
	// The kernel runs it in the machine's own mount namespace, which has /var/tmp.
	dir, err := os.MkdirTemp("/var/tmp", "agentjail-core-")
	env.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, said := filepath.Join(dir, "handler"), filepath.Join(dir, "said")
	// It writes first: a dump is larger than a pipe, so the kernel waits for the reader.
	script := fmt.Sprintf("#!/bin/sh\necho crash >> %s\nexec cat > /dev/null\n", said)
	for name, text := range map[string]string{program: script, said: ""} {
		env.Check(t, os.WriteFile(name, []byte(text), 0o755))
	}
	if err := os.WriteFile(corePattern, []byte("|"+program), 0); err != nil {
		t.Skipf("the host's handler of crashes cannot be set: %v", err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(corePattern, old, 0); err != nil {
			t.Errorf("the host's handler of crashes is not put back: %v", err)
		}
	})
	return func() int {
		text := env.Read(t, said)
		return strings.Count(string(text), "\n")
	}
}

// TestCoreHandler: where core_pattern is a pipe, the kernel runs a program as host root for each crash, also where the
// limit on core files is 0. It runs for none of a jail's, whatever the engine and the program state about that limit.
func TestCoreHandler(t *testing.T) {
	const crashes = 5
	crash := fmt.Sprintf("for i in $(seq %d); do sh -c 'kill -ABRT $$'; done; true", crashes)
	for _, c := range []struct {
		name    string
		options []string
		script  string
		runs    bool
	}{
		{"control", []string{plain, "--ulimit", "core=0:0"}, crash, true},
		{"by default", []string{jail}, crash, false},
		{"the engine sets 0", []string{jail, "--ulimit", "core=0:0"}, crash, false},
		{"the engine sets no limit", []string{jail, "--ulimit", "core=-1:-1"}, crash, false},
		{"the program sets 0", []string{jail}, "ulimit -c 0 && " + crash, false},
		{"another user", []string{jail, "-u", "1000"}, "ulimit -c 0 && " + crash, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			count := handler(t)
			d := docker.For(t)
			id := d.Detached(append(c.options, engine.Busybox, "sleep", "3600")...)
			d.Must("exec", id, "sh", "-c", c.script)
			d.Must(append(append([]string{"run", "--rm"}, c.options...), engine.Busybox, "sh", "-c", c.script)...)
			if !c.runs {
				if n := count(); n != 0 {
					t.Errorf("the host's handler ran %d times", n)
				}
				return
			}
			env.Eventually(d, "the host's handler", func() bool { return count() == 2*crashes })
		})
	}
}
