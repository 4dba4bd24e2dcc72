package cri

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
	"agentjail.dev/tests/journal/refusal"
)

// TestRefusals: a pod that is refused forty kinds of things has them in the journals of its jails, each once. The column belongs beside those
// of tests/journal. One release is enough: what a pod may request, and what becomes of that, the other tests try on each.
func TestRefusals(t *testing.T) {
	on(t, 0, func(t *testing.T, n *node) {
		dir := env.Get(t, engine.Shim)
		policy := filepath.Join(dir, "refusals.toml")
		refusal.Collect(t, policy, func(args ...string) *exec.Cmd { return exec.Command(args[0], args[1:]...) })
		rows := refusal.Of(refusal.CRI)
		c := n.requesting(t, rows)
		p := &refusal.Place{
			Exec: func(_ []string, command ...string) error { return c.worked(command) },
			Detached: func(_ []string, command ...string) error {
				return c.worked(append([]string{"sh", "-c", `"$@" </dev/null >/dev/null 2>&1 &`, "detached"}, command...))
			},
			Update: func(_, memory int64) error {
				_, err := c.UpdateContainerResources(callContext(t), &runtimeapi.UpdateContainerResourcesRequest{
					ContainerId: c.id,
					Linux:       &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: memory},
				})
				return err
			},
			Denied: func() (all [][]refusal.Denial) {
				for _, id := range []string{c.pod.id, c.id} {
					all = append(all, refusal.Parse(t, engine.Run(t, filepath.Join(dir, "agentjail"), "--config", policy, "denied", "--json", id)))
				}
				return all
			},
		}
		p.Try(t, rows)
		m := &refusal.Matrix{Drivers: []refusal.Driver{refusal.CRI}}
		p.Check(t, refusal.CRI, rows, m)
		t.Logf("CRI, containerd %s:\n%s", n.Containerd.Version(), m)
	})
}

// requesting is a container that requests everything, in a pod that does.
func (n *node) requesting(t *testing.T, rows []refusal.Row) *container {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r refusal.Row) bool { return r.Pod == nil })
	var unused runtimeapi.ContainerConfig
	unused.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{}}
	p := n.pod(t, "refusals", func(s *runtimeapi.PodSandboxConfig) {
		for _, r := range rows {
			r.Pod(s, &unused)
		}
	})
	return p.container("main", "exec sleep 1000", func(c *runtimeapi.ContainerConfig) {
		for _, r := range rows {
			r.Pod(p.config, c)
		}
	})
}

// worked runs a command that has to end well.
func (c *container) worked(command []string) error {
	r := c.result(command...)
	if r.Code != 0 {
		return errors.New(r.String())
	}
	return nil
}
