package cri

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// crio is a CRI-O with the handlers that `agentjail install crio` writes, started when the first test requests it.
var crio = sync.OnceValues(startCRIO)

type crioNode struct {
	*node
	daemon *engine.CRIO
}

func startCRIO() (*crioNode, error) {
	program, err := engine.Tool("crio")
	if err != nil {
		return nil, err
	}
	dir, err := engine.Shim()
	if err != nil {
		return nil, err
	}
	netName := filepath.Join(dir, "agentjail-net")
	if err := os.Symlink("agentjail", netName); err != nil && !os.IsExist(err) {
		return nil, err
	}
	manager := "cgroupfs"
	if *bySystemd {
		manager = "systemd"
	}
	c, err := engine.StartCRIO(program, manager, func(c *engine.CRIO) error {
		layer, err := engine.PauseLayer(c.Dir)
		if err != nil {
			return err
		}
		if err := c.ImportImage(pauseImage, layer, engine.ImageConfig{Entrypoint: []string{"/pause"}, User: "65535:65535"}); err != nil {
			return err
		}
		if err := c.ImportBusybox(); err != nil {
			return err
		}
		out, err := exec.Command(filepath.Join(dir, "agentjail"), "install", "crio", "--drop-in", c.DropIn()).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(": written")) {
			return fmt.Errorf("agentjail install crio: %w: %s", err, out)
		}
		_, err = engine.WriteCNI(c.Dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix://"+c.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	n := &node{Engine: c.Engine, RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn), conn: conn, cgroups: "/" + c.CgroupParent() + "/kubepods"}
	if *bySystemd {
		n.cgroups, n.bySystemd = "/kubepods.slice", true
	}
	startedLock.Lock()
	started = append(started, n)
	startedLock.Unlock()
	fmt.Fprintf(os.Stderr, "cri: CRI-O %s\n", c.Version())
	return &crioNode{n, c}, nil
}

// onCRIO runs a test on it.
func onCRIO(t *testing.T, test func(*testing.T, *crioNode)) {
	t.Helper()
	engine.NeedsRoot(t, "it runs jails")
	n := env.Get(t, crio)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("daemon log:\n%s", n.Logs(40))
		}
		n.nothingLeft(t, cniNamespaces())
	})
	test(t, n)
}

// TestCRIOLife: a pod's life over CRI-O: logs, probes, kubectl's exec and copy, statistics, limits, a stop with its grace period, a pod's second sandbox.
func TestCRIOLife(t *testing.T) {
	onCRIO(t, func(t *testing.T, n *crioNode) {
		p := n.pod(t, "agentjail")
		main, cache := p.begin()
		if _, code := main.exec("exit 7"); code != 7 {
			t.Errorf("a probe that fails: %d", code)
		}
		r, err := main.ExecSync(callContext(t), &runtimeapi.ExecSyncRequest{ContainerId: main.id, Cmd: []string{"sleep", "1000"}, Timeout: 1})
		if err == nil && r.ExitCode == 0 {
			t.Error("a probe that hangs succeeds")
		}
		if out, errs, failure := main.stream([]byte("said"), "sh", "-c", "head -c 4; echo err >&2"); failure != "" || string(out) != "said" || string(errs) != "err\n" {
			t.Errorf("exec: %q, %q, %s", out, errs, failure)
		}
		if _, _, failure := main.stream(nil, "sh", "-c", "exit 9"); !strings.Contains(failure, "9") {
			t.Errorf("exec of what fails: %q", failure)
		}
		env.Eventually(t, "statistics", func() bool {
			stats, err := p.ContainerStats(callContext(t), &runtimeapi.ContainerStatsRequest{ContainerId: main.id})
			return err == nil && stats.Stats.GetMemory().GetWorkingSetBytes().GetValue() > 0
		})
		main.inScopes()
		_, err = p.UpdateContainerResources(callContext(t), &runtimeapi.UpdateContainerResourcesRequest{ContainerId: main.id, Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 128 << 20, CpuPeriod: 100000, CpuQuota: 100000, CpuShares: 512}})
		if out := main.must("cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"); err != nil || out != "134217728" {
			t.Errorf("the memory limit is %s, %v", out, err)
		}
		main.limitedBySystemd("MemoryMax=134217728", "CPUQuotaPerSecUSec=1s")
		if out, err := exec.Command(agentjail(t), "inspect", main.id).CombinedOutput(); err != nil {
			t.Errorf("inspect: %v\n%s", err, out)
		}
		p.replaced(main, cache)
	})
}

// TestCRIONetwork: what the containers of a pod share over CRI-O, which makes its namespaces without a container, and who reaches them.
func TestCRIONetwork(t *testing.T) {
	onCRIO(t, func(t *testing.T, n *crioNode) {
		p, sealed := n.pod(t, "agentjail-net"), n.pod(t, "agentjail")
		a, b := p.container("a", serve(80, "hello-pod")), p.container("b", idle)
		c, d := sealed.container("c", serve(8080, "hello-nobody")), sealed.container("d", idle)
		for _, w := range []struct {
			kind    string
			x, y    *container
			sharing bool
		}{{"net", a, b, true}, {"net", c, d, false}, {"ipc", a, b, false}, {"uts", a, b, false}, {"user", a, b, true}, {"pid", a, b, false}, {"mnt", a, b, false}} {
			x, y := namespace(t, w.x.pid(), w.kind), namespace(t, w.y.pid(), w.kind)
			if x == hosts(t, w.kind) || (x == y) != w.sharing {
				t.Errorf("%s: %s and %s have %s and %s, the host %s", w.kind, w.x.name, w.y.name, x, y, hosts(t, w.kind))
			}
		}
		env.Eventually(t, "an answer on the pod's address", func() bool {
			out, err := n.dial(net.JoinHostPort(p.ip(), "80"))
			return err == nil && out == "hello-pod"
		})
		env.Eventually(t, "an answer over the pod's lo", func() bool {
			out, _ := b.exec("nc 127.0.0.1 80 </dev/null")
			return out == "hello-pod"
		})
		env.Eventually(t, "the sealed pod's server", func() bool {
			out, _ := c.exec("nc 127.0.0.1 8080 </dev/null")
			return out == "hello-nobody"
		})
		if out, err := n.dial(net.JoinHostPort(sealed.ip(), "8080")); err == nil || sealed.ip() == "" {
			t.Errorf("the sealed pod at %q answers %q", sealed.ip(), out)
		}
		if out, code := d.exec("nc -w 2 " + p.ip() + " 80 </dev/null"); code == 0 {
			t.Errorf("the sealed pod reaches %q", out)
		}
		if out := a.must("hostname; cat /etc/resolv.conf; id -u"); out != "a-pod\nsearch default.svc.cluster.local\nnameserver 10.77.0.53\n0" {
			t.Errorf("names: %q", out)
		}
		for _, id := range []string{a.id, b.id, c.id, d.id} {
			if out, err := exec.Command(agentjail(t), "inspect", id).CombinedOutput(); err != nil {
				t.Errorf("inspect: %v\n%s", err, out)
			}
		}
	})
}

// TestCRIOShared: with shared processes CRI-O starts the sandbox's own container first.
func TestCRIOShared(t *testing.T) {
	onCRIO(t, func(t *testing.T, n *crioNode) {
		p := n.pod(t, "agentjail", func(s *runtimeapi.PodSandboxConfig) {
			s.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_POD
		})
		a, b := p.container("a", "exec sleep 4321"), p.container("b", idle)
		if x, y := namespace(t, a.pid(), "pid"), namespace(t, b.pid(), "pid"); x != y || x == hosts(t, "pid") {
			t.Errorf("processes of %s and %s", x, y)
		}
		env.Eventually(t, "the other's process", func() bool {
			_, code := b.exec("ps | grep '[s]leep 4321'")
			return code == 0
		})
	})
}

// TestCRIOPrivileged: a privileged pod is a plain jail, without the node's devices.
func TestCRIOPrivileged(t *testing.T) {
	onCRIO(t, func(t *testing.T, n *crioNode) {
		c := n.alone(t, "agentjail", true, []string{"sh", "-c", idle})
		out := c.must("grep CapEff /proc/self/status; cat /proc/self/uid_map; ls /dev")
		if !strings.Contains(out, "0000000000000000") || strings.Contains(out, "kmsg") || strings.Contains(out, "mem") || strings.Fields(out)[3] == "0" {
			t.Errorf("a privileged container has %s", out)
		}
	})
}

// TestCRIORestart: CRI-O ends and comes back while a pod runs, which goes on and can be worked with.
func TestCRIORestart(t *testing.T) {
	onCRIO(t, func(t *testing.T, n *crioNode) {
		p := n.pod(t, "agentjail-net")
		c := p.container("main", idle)
		pid, ip := c.pid(), p.ip()
		for how, stop := range map[string]func() error{"stopped": n.daemon.Stop, "killed": n.daemon.Kill} {
			env.Check(t, errors.Join(stop(), n.daemon.Start()))
			env.Eventually(t, "CRI", func() bool {
				_, err := n.Status(callContext(t), &runtimeapi.StatusRequest{})
				return err == nil
			})
			if c.pid() != pid || p.ip() != ip {
				t.Errorf("%s: process %d and address %s were %d and %s", how, c.pid(), p.ip(), pid, ip)
			}
			c.must("ip addr show eth0 | grep -q " + ip)
			p.container(how, idle)
		}
	})
}
