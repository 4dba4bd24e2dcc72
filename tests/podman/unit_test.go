package podman

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestUnitCommand runs what a unit made by quadlet (podman-systemd.unit(5)) runs, twice, as a restart of the unit does.
func TestUnitCommand(t *testing.T) {
	p := root(t)
	t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", "--ignore", "systemd-agent") })
	dir := shared(t, p, 1000)
	cid := filepath.Join(p.Dir, "systemd-agent.cid")
	for range 2 {
		p.Remove("rm", "-f", "-t", "0", "--ignore", "systemd-agent") // as the unit's stop does
		// Where there is no systemd, there is no group of the unit's to split.
		p.Must("run", "--name=systemd-agent", "--cidfile="+cid, "--replace", "--rm", "--cgroups=enabled", "--stop-timeout=0", "--network=none", "--sdnotify=conmon", "-d",
			"--label", "PODMAN_SYSTEMD_UNIT=agent.service", "--log-driver=k8s-file", "-v", dir+":/work", engine.Busybox, "sleep", "3600")
		promise.Jailed(t, "the unit's container", probeIn[engine.Who](p, "systemd-agent", "identity"))
		if err := os.Remove(cid); err != nil {
			t.Error(err)
		}
	}
	sh(p, "systemd-agent", "echo made > /work/file")
	env.Equal(t, "owner of what it makes", env.Owner(t, filepath.Join(dir, "file")), "1000:1000")
	p.Remove("rm", "-f", "-t", "0", "systemd-agent")
}

// TestQuadlet: the unit that podman generates from a file with PodmanArgs starts the container in a jail.
func TestQuadlet(t *testing.T) {
	p := root(t)
	const generator = "/usr/libexec/podman/quadlet"
	if _, err := os.Stat(generator); err != nil {
		t.Skip("podman before 4.4 has no quadlet:", err)
	}
	dir := filepath.Join(p.Dir, "etc", "systemd")
	env.Check(t, os.MkdirAll(dir, 0o755))
	unit := "[Container]\nImage=" + engine.Busybox + "\nExec=sleep 3600\nPodmanArgs=--runtime=" + engine.Name + "\n"
	env.Check(t, os.WriteFile(filepath.Join(dir, "agent.container"), []byte(unit), 0o644))
	cmd := p.Inside(context.Background(), generator, "-dryrun")
	cmd.Env = append(cmd.Env, "QUADLET_UNIT_DIRS="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.SplitSeq(string(out), "\n") {
		if strings.HasPrefix(line, "ExecStart=") {
			env.Contain(t, "what the unit runs", line, "--runtime="+engine.Name)
			return
		}
	}
	t.Errorf("no ExecStart in %s", out)
}
