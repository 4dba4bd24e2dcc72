// Package agents runs real agents by `agentjail sandbox --agent`, against a server of the test's own that has the names of the
// models' APIs. hack/npm-tools.sh installs the agents.
package agents

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"agentjail.dev/tests/engine"
)

var bin string

// hosted is set for the process that is in a network of its own.
const hosted = "AGENTJAIL_AGENTS_HOSTED"

func TestMain(m *testing.M) {
	engine.IfJanitor()
	if os.Getenv(hosted) == "" {
		engine.SuiteNeedsRoot("it runs jails")
		os.Exit(host())
	}
	os.Exit(engine.MainBare(m, "it runs jails", &bin))
}

// host runs this program again in network and mount namespaces of its own.
func host() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), hosted+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
