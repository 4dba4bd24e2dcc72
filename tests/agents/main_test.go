// Package agents runs real agents by `agentjail sandbox --agent`, against a server of the test's own that has the names of the
// models' APIs. hack/npm-tools.sh installs the agents.
package agents

import (
	"os"
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
		os.Exit(engine.OnOwnHost(hosted))
	}
	os.Exit(engine.MainBare(m, "it runs jails", &bin))
}
