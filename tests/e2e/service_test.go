package e2e

import (
	"strings"
	"testing"
)

// service is the runtime of the built-in policy whose jails' root keeps capabilities.
const service = "--runtime=agentjail-service"

// TestServiceMasks: the jail's root has policy's six capabilities of the bundle's, whatever else is requested; no other user
// has one, and an exec never more than its container.
func TestServiceMasks(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const status = "grep ^Cap /proc/self/status | tr -s '\\t\\n' ' '"
	sets := func(mask string) string {
		return "CapInh: 0000000000000000 CapPrm: " + mask + " CapEff: " + mask + " CapBnd: " + mask + " CapAmb: 0000000000000000"
	}
	const none, six, two = "0000000000000000", "00000000000000eb", "0000000000000081"
	for name, c := range map[string]struct {
		options         []string
		run, exec, root string // the first process, a privileged exec, and one as root
	}{
		"default runtime": {[]string{"--runtime=agentjail", "--privileged"}, none, none, none},
		"plain":           {nil, six, six, six},
		"privileged":      {[]string{"--privileged", "--cap-add=SYS_ADMIN", "--security-opt", "seccomp=unconfined"}, six, six, six},
		"none":            {[]string{"--cap-drop=ALL"}, none, none, none},
		"two":             {[]string{"--cap-drop=ALL", "--cap-add=CHOWN", "--cap-add=SETUID", "--cap-add=SYS_PTRACE"}, two, two, two},
		"another user":    {[]string{"-u", "1000", "--privileged"}, none, none, six},
		"a variable":      {[]string{"--runtime=agentjail", "-e", "AGENTJAIL_POLICY=service"}, none, none, none},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			args := append([]string{service}, c.options...)
			id := d.Detached(append(append(args, "--network", "none", "busybox"), "sh", "-c", status+"; sleep 3600")...)
			for what, got := range map[string][2]string{
				"run":         {strings.TrimSpace(d.Docker("exec", id, "sh", "-c", "cat /proc/1/status | grep ^Cap | tr -s '\\t\\n' ' '").Stdout), sets(c.run)},
				"exec":        {strings.TrimSpace(d.Docker("exec", "--privileged", id, "sh", "-c", status).Stdout), sets(c.exec)},
				"exec as 0":   {strings.TrimSpace(d.Docker("exec", "--privileged", "-u", "0", id, "sh", "-c", status).Stdout), sets(c.root)},
				"exec as 300": {strings.TrimSpace(d.Docker("exec", "--privileged", "-u", "300", id, "sh", "-c", status).Stdout), sets(none)},
			} {
				if got[0] != got[1] {
					t.Errorf("%s: %q, not %q", what, got[0], got[1])
				}
			}
		})
	}
	r := d.Docker("run", "--rm", "--runtime=agentjail", "--label", "dev.agentjail.process.capabilities=CHOWN", "busybox", "true")
	if r.Code == 0 || !strings.Contains(r.Stderr, "only the policy file sets this key") {
		t.Errorf("a label: %s", r)
	}
}
