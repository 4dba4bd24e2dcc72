// Package boundary tries jails behind a sandbox with a kernel of its own (gVisor): what holds of them as of any jail, and what is held
// by another kernel than the host's.
package boundary

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var bin, runsc string

func TestMain(m *testing.M) {
	engine.IfJanitor()
	engine.SuiteNeedsRoot("it runs jails") // before runsc is built, where only root may write
	var err error
	if runsc, err = engine.Tool(traits.Bounded("gvisor")); err != nil {
		fmt.Fprintln(os.Stderr, "runsc:", err)
		os.Exit(1)
	}
	if err := engine.OwnPolicy(fmt.Sprintf("[policies.gvisor]\ndelegate = %q\n", runsc)); err != nil {
		fmt.Fprintln(os.Stderr, "the policy:", err)
		os.Exit(1)
	}
	code := engine.MainBare(m, "it runs jails", &bin)
	if err := engine.DropPolicy(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// policy writes a policy file for the sandbox with further settings.
func policy(t *testing.T, more string) string {
	t.Helper()
	return policyOver(t, runsc, more)
}

// policyOver is policy for a delegate.
func policyOver(t *testing.T, delegate, more string) string {
	t.Helper()
	return engine.PolicyFile(t, fmt.Sprintf("delegate = %q\n%s\n", delegate, more))
}

func sandbox(t *testing.T, args ...string) engine.Result {
	t.Helper()
	return engine.Run(t, bin, append([]string{"sandbox", "--policy", "gvisor"}, args...)...)
}

// put writes a file of uid 1000 with the directories above it.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	env.Check(t, engine.FillWorkspace(dir, map[string]string{name: text}))
}

// left are the host's processes, groups and files that have something in their name.
func left(name string) []string {
	out, _ := filepath.Glob("/run/agentjail/jails/*" + name + "*")
	for _, pattern := range []string{"/run/agentjail/sandbox/delegate/*", "/sys/fs/cgroup/agentjail-*", "/sys/fs/cgroup/*/agentjail-*"} {
		found, _ := filepath.Glob(pattern + name + "*")
		out = append(out, found...)
	}
	for _, pid := range processesOf(name) {
		out = append(out, fmt.Sprintf("process %d", pid))
	}
	return out
}

// processesOf are the processes that have something among their arguments, but for inspect's own.
func processesOf(name string) []int {
	return env.Processes(func(pid int) bool {
		line := env.CommandLine(pid)
		return strings.Contains(line, name) && !strings.Contains(line, "inspect")
	})
}

func kill(t *testing.T, pid int) {
	t.Helper()
	env.Check(t, unix.Kill(pid, unix.SIGKILL))
}
