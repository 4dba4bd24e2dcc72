package podman

import (
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestPublicFiles: the host's time zone and its users come as read-only copies, to root's jails and to a user's.
func TestPublicFiles(t *testing.T) {
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	for name, get := range map[string]func(*testing.T) *engine.PodmanT{"root": root, "user": user} {
		t.Run(name, func(t *testing.T) {
			p := get(t)
			out := mustRunJail(p, "-v", "/etc/localtime:/etc/localtime:ro", "-v", "/etc/passwd:/passwd:ro", engine.Busybox, "sh", "-c",
				"head -c 4 /etc/localtime; echo; grep -c '^root:x:0:0::/root:' /passwd; echo x 2>/dev/null >>/passwd || echo read-only; grep -c ' /passwd .*zoneinfo\\|/etc/passwd' /proc/self/mountinfo; true")
			env.Equal(t, "what the jail has", out, "TZif\n1\nread-only\n0")
		})
	}
}
