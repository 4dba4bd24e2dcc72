package cri

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// A pod's life as the kubelet leads it: an init container first, then the others; logs, probes, a restart, a stop with its
// grace period, and an end with the pod.
func TestPodLife(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		p := n.pod(t, "agentjail")
		main, cache := p.begin()
		// Exec probes: by exit code, and one that does not end.
		if _, code := main.exec("test -e /cache/made"); code != 0 {
			t.Errorf("a probe that should succeed: %d", code)
		}
		if _, code := main.exec("exit 7"); code != 7 {
			t.Errorf("a probe that should fail: %d", code)
		}
		_, err := main.ExecSync(callContext(t), &runtimeapi.ExecSyncRequest{ContainerId: main.id, Cmd: []string{"sleep", "1000"}, Timeout: 1})
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a probe that hangs: %v", err)
		}
		// A program in its own time ends; the kubelet makes a new container in the same sandbox.
		crash := p.container("crash", "echo attempt; exit 3")
		if code := crash.wait(); code != 3 {
			t.Errorf("exit code %d", code)
		}
		if _, err := p.RemoveContainer(callContext(t), &runtimeapi.RemoveContainerRequest{ContainerId: crash.id}); err != nil {
			t.Error(err)
		}
		again := p.container("crash", "echo again; exit 4", func(c *runtimeapi.ContainerConfig) { c.Metadata.Attempt, c.LogPath = 1, "crash_1.log" })
		if code := again.wait(); code != 4 {
			t.Errorf("second attempt: exit code %d: %s", code, again.log())
		}
		again.logged("again")
		if got, want := namespace(t, p.pid(), "user"), namespace(t, main.pid(), "user"); got != want {
			t.Errorf("user namespace %s, the pod's is %s", got, want)
		}
		p.replaced(main, cache)
	})
}

// begin runs an init container that writes to a volume, and then one that goes on and has that volume.
func (p *pod) begin() (main *container, cache string) {
	t := p.t
	t.Helper()
	cache = p.volume("empty-dir", "cache", 0o777)
	first := p.container("init", "echo made by init >/cache/made; echo init is done", mount(cache, "/cache", false))
	if code := first.wait(); code != 0 {
		t.Fatalf("init container: exit code %d: %s", code, first.log())
	}
	main = p.container("main", "cat /cache/made; echo to stderr >&2; "+idle, mount(cache, "/cache", false))
	// The streams come each in its own time.
	for _, line := range []string{" stdout F made by init\n", " stderr F to stderr\n"} {
		main.logged(line)
	}
	return main, cache
}

// replaced stops begin's container within its grace period, and has another sandbox take the place of the pod's, with the same volume.
func (p *pod) replaced(main *container, cache string) {
	t := p.t
	t.Helper()
	if _, err := p.StopContainer(callContext(t), &runtimeapi.StopContainerRequest{ContainerId: main.id, Timeout: 30}); err != nil {
		t.Fatal(err)
	}
	if s := main.status().Status; s.State != runtimeapi.ContainerState_CONTAINER_EXITED || s.ExitCode != 0 {
		t.Errorf("after a stop: %v, exit code %d", s.State, s.ExitCode)
	}
	p.remove(p.id)
	p.config.Metadata.Attempt = 1
	env.Check(t, p.run("agentjail"))
	if out := p.container("after", idle, mount(cache, "/cache", false)).must("cat /cache/made"); out != "made by init" {
		t.Errorf("after the sandbox's restart: %q", out)
	}
}

// containerd ends and comes back while pods run: they go on, and can be worked with, joined and removed.
func TestContainerdRestart(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		for _, how := range []struct {
			name string
			stop func() error
		}{{"stopped", n.Stop}, {"killed", n.Kill}} {
			p := n.pod(t, "agentjail-net")
			c := p.container("main", idle)
			pid, ip := c.pid(), p.ip()
			env.Check(t, how.stop())
			env.Check(t, n.Start())
			env.Eventually(t, "CRI", func() bool {
				_, err := n.Status(callContext(t), &runtimeapi.StatusRequest{})
				return err == nil
			})
			if c.pid() != pid || p.ip() != ip {
				t.Errorf("%s: process %d and address %s were %d and %s", how.name, c.pid(), p.ip(), pid, ip)
			}
			c.must("ip addr show eth0 | grep -q " + ip)
			if later := p.container("later", idle); namespace(t, later.pid(), "user") != namespace(t, pid, "user") {
				t.Errorf("%s: a container made later is in another user namespace", how.name)
			}
		}
	})
}

// Limits of the pod's description hold where they are lower than policy's, and policy's where not.
func TestPodLimits(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		p := n.pod(t, "agentjail")
		c := p.container("small", idle, func(c *runtimeapi.ContainerConfig) {
			c.Linux.Resources = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 << 20, CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 512}
		})
		limit := "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"
		if out := c.must(limit); out != "67108864" {
			t.Errorf("memory limit %s", out)
		}
		if out := c.must("nproc"); out != "1" {
			t.Errorf("%s processors", out)
		}
		if out, code := c.exec("dd if=/dev/zero of=/dev/null bs=150M count=1"); code == 0 {
			t.Errorf("150 MiB fit into 64: %s", out)
		}
		_, err := p.UpdateContainerResources(callContext(t), &runtimeapi.UpdateContainerResourcesRequest{
			ContainerId: c.id,
			Linux:       &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 128 << 20, CpuPeriod: 100000, CpuQuota: 100000, CpuShares: 512},
		})
		env.Check(t, err)
		if out := c.must(limit); out != "134217728" {
			t.Errorf("memory limit after the update %s", out)
		}
		large := p.container("large", idle, func(c *runtimeapi.ContainerConfig) {
			c.Linux.Resources = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 40}
		})
		if out := large.must(limit); len(out) > len("4294967296") || out > "4294967296" && len(out) == len("4294967296") {
			t.Errorf("memory limit %s is above policy's", out)
		}
		if out := large.must("cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max"); out != "1024" {
			t.Errorf("process limit %s", out)
		}
		// The pod's annotations can tighten, where the configuration lets them through.
		tight := n.pod(t, "agentjail", func(s *runtimeapi.PodSandboxConfig) {
			s.Annotations = map[string]string{"dev.agentjail.limits.pids": "50", "dev.agentjail.limits.memory": "1TiB"}
		}).container("tight", idle)
		if out := tight.must("cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max"); out != "50" {
			t.Errorf("process limit %s by annotation", out)
		}
		if out := tight.must(limit); len(out) > len("4294967296") {
			t.Errorf("memory limit %s by annotation", out)
		}
		stats, err := p.ContainerStats(callContext(t), &runtimeapi.ContainerStatsRequest{ContainerId: large.id})
		if err != nil || stats.Stats.Memory.GetWorkingSetBytes().GetValue() == 0 {
			t.Errorf("stats %v, %v", stats, err)
		}
	})
}
