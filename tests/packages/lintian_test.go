package packages

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestLintian: this Debian's lintian finds nothing in the package, down to what it only informs of, but what hack/release/files/lintian gives
// a reason for. What one release's lintian looks at, another's may not: a reason need not be needed by both.
func TestLintian(t *testing.T) {
	needsGo(t)
	suppressed := "unused-override"
	release := env.Read(t, "/etc/os-release")
	if strings.Contains(string(release), "VERSION_ID=\"12\"") {
		// The unit's service is a choice, for hosts with systemd. An override would not do: the next release's lintian calls it alien.
		suppressed += ",package-supports-alternative-init-but-no-init.d-script"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "lintian", "--allow-root", "--no-cfg", "--display-info", "--tag-display-limit", "0", "--suppress-tags", suppressed,
		"--fail-on", "error,warning,info", deb(first))
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if r := engine.RunCommand(ctx, cmd, nil); r.Code != 0 || r.Stdout != "" {
		t.Error(r)
	}
}
