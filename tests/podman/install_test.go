package podman

import (
	"strings"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestInstall: what `agentjail install podman --default` has written, TestMain did, is what root's and users' podman go
// by, and uninstall takes it out again.
func TestInstall(t *testing.T) {
	p := root(t)
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	agentjail := func(args ...string) string {
		t.Helper()
		r := p.Run(nil, append([]string{under}, args...)...)
		if r.Code != 0 {
			t.Fatal(r)
		}
		return r.Stdout
	}
	for _, p := range []*engine.PodmanT{p, user(t)} {
		env.Equal(t, "podman's default runtime", p.Must("info", "-f", "{{.Host.OCIRuntime.Name}} {{.Host.OCIRuntime.Path}}"), engine.Name+" "+under)
	}
	env.Contain(t, "a second run", agentjail("install", "podman", "--default"), "nothing to change")
	diff := agentjail("uninstall", "podman", "--dry-run")
	for _, line := range []string{"-runtime = \"agentjail\"", "-[engine.runtimes]", "-agentjail = [\"" + under + "\"]", "+++ /dev/null"} {
		env.Contain(t, "what uninstall would change", diff, line)
	}
	env.Contain(t, "uninstall", agentjail("uninstall", "podman"), "removed")
	if name := p.Must("info", "-f", "{{.Host.OCIRuntime.Name}}"); name == engine.Name {
		t.Error("podman still has it as default runtime")
	}
	if r := p.Podman("--runtime="+engine.Name, "run", "--rm", "--network=none", engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, engine.Name) {
		t.Errorf("podman still knows it: %s", r)
	}
	env.Contain(t, "install", agentjail("install", "podman", "--default"), "written")
	promise.Jailed(t, "podman run", env.Decode[engine.Who](t, mustRunJail(p, engine.Busybox, "probe", "identity")))
}
