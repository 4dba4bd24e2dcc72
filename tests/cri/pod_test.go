package cri

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// callWait bounds one call, and waiting for one thing.
const callWait = 2 * time.Minute

func callContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callWait)
	t.Cleanup(cancel)
	return ctx
}

// A pod is a sandbox with what the kubelet keeps for it.
type pod struct {
	*node
	t      *testing.T
	config *runtimeapi.PodSandboxConfig
	id     string
	dir    string // the kubelet's directory of the pod
	logs   string
}

// newUID makes a pod's id as the API server does.
func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// plan makes ready what the kubelet has before it requests a sandbox.
func (n *node) plan(t *testing.T, change ...func(*runtimeapi.PodSandboxConfig)) *pod {
	t.Helper()
	uid := newUID()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", " ", "-").Replace(t.Name()))
	p := &pod{node: n, t: t, dir: filepath.Join(n.Dir, "kubelet/pods", uid), logs: filepath.Join(n.Dir, "pod-logs", uid)}
	for _, d := range []string{p.dir, p.logs} {
		env.Check(t, os.MkdirAll(d, 0o750))
	}
	group := n.cgroups + "/burstable/pod" + uid
	if n.bySystemd {
		group = n.slice(t, uid)
	}
	p.config = &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Uid: uid, Namespace: "default"},
		Hostname: "a-pod", LogDirectory: p.logs,
		DnsConfig: &runtimeapi.DNSConfig{Servers: []string{"10.77.0.53"}, Searches: []string{"default.svc.cluster.local"}},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: group,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_POD, Pid: runtimeapi.NamespaceMode_CONTAINER, Ipc: runtimeapi.NamespaceMode_POD},
				Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
			},
		},
	}
	for _, c := range change {
		c(p.config)
	}
	return p
}

// pod starts a pod's sandbox.
func (n *node) pod(t *testing.T, handler string, change ...func(*runtimeapi.PodSandboxConfig)) *pod {
	t.Helper()
	p := n.plan(t, change...)
	env.Check(t, p.run(handler))
	return p
}

// run requests the sandbox.
func (p *pod) run(handler string) error {
	r, err := p.RunPodSandbox(callContext(p.t), &runtimeapi.RunPodSandboxRequest{Config: p.config, RuntimeHandler: handler})
	if err != nil {
		return err
	}
	p.id = r.PodSandboxId
	id := r.PodSandboxId
	p.t.Cleanup(func() { p.remove(id) })
	return nil
}

// remove stops and removes a sandbox with its containers. It may be gone already.
func (p *pod) remove(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), callWait)
	defer cancel()
	// CRI-O gives each container of a sandbox that is stopped a period of grace, one after the other.
	if r, err := p.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: id}}); err == nil {
		for _, c := range r.Containers {
			_, _ = p.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: c.Id})
		}
	}
	if _, err := p.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil && status.Code(err) != codes.NotFound {
		p.t.Errorf("stop sandbox: %v", err)
	}
	if _, err := p.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		p.t.Errorf("remove sandbox: %v", err)
	}
}

// pid is the sandbox's first process.
func (p *pod) pid() int {
	p.t.Helper()
	r, err := p.PodSandboxStatus(callContext(p.t), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id, Verbose: true})
	env.Check(p.t, err)
	return pidOf(p.t, r.Info)
}

// ip is the address that CNI gave.
func (p *pod) ip() string {
	p.t.Helper()
	r, err := p.PodSandboxStatus(callContext(p.t), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
	env.Check(p.t, err)
	return r.GetStatus().GetNetwork().GetIp()
}

func pidOf(t *testing.T, info map[string]string) int {
	t.Helper()
	var v struct{ Pid int }
	if err := json.Unmarshal([]byte(info["info"]), &v); err != nil || v.Pid <= 1 {
		t.Fatalf("no process in %q: %v", info["info"], err)
	}
	return v.Pid
}

// A container of a pod.
type container struct {
	*pod
	id, name string
	config   *runtimeapi.ContainerConfig
}

// create requests a container that runs a shell command.
func (p *pod) create(name, script string, change ...func(*runtimeapi.ContainerConfig)) (*container, error) {
	p.t.Helper()
	ns := p.config.Linux.SecurityContext.NamespaceOptions
	c := &container{pod: p, name: name, config: &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: image},
		Command:  []string{"/bin/sh", "-c", script},
		LogPath:  name + "_0.log",
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{OomScoreAdj: 1000},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: ns,
				Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
				MaskedPaths:      []string{"/proc/kcore", "/proc/keys"}, ReadonlyPaths: []string{"/proc/sys"},
			},
		},
	}}
	for _, f := range change {
		f(c.config)
	}
	r, err := p.CreateContainer(callContext(p.t), &runtimeapi.CreateContainerRequest{PodSandboxId: p.id, Config: c.config, SandboxConfig: p.config})
	if err != nil {
		return nil, err
	}
	c.id = r.ContainerId
	return c, nil
}

// start is create and the start.
func (p *pod) start(name, script string, change ...func(*runtimeapi.ContainerConfig)) (*container, error) {
	p.t.Helper()
	c, err := p.create(name, script, change...)
	if err != nil {
		return nil, err
	}
	_, err = p.StartContainer(callContext(p.t), &runtimeapi.StartContainerRequest{ContainerId: c.id})
	return c, err
}

// container is start for one that has to start.
func (p *pod) container(name, script string, change ...func(*runtimeapi.ContainerConfig)) *container {
	p.t.Helper()
	c, err := p.start(name, script, change...)
	if err != nil {
		p.t.Fatalf("container %s: %v", name, err)
	}
	return c
}

// idle is a script that lasts until the container is stopped.
const idle = `trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done`

// exec runs a shell command in the container.
func (c *container) exec(script string) (stdout string, code int32) {
	c.t.Helper()
	r, err := c.ExecSync(callContext(c.t), &runtimeapi.ExecSyncRequest{ContainerId: c.id, Cmd: []string{"/bin/sh", "-c", script}, Timeout: 60})
	if err != nil {
		c.t.Fatalf("exec %q: %v", script, err)
	}
	return strings.TrimSpace(string(r.Stdout) + string(r.Stderr)), r.ExitCode
}

// must is exec for what has to succeed.
func (c *container) must(script string) string {
	c.t.Helper()
	out, code := c.exec(script)
	if code != 0 {
		c.t.Fatalf("%s: %q: exit code %d: %s", c.name, script, code, out)
	}
	return out
}

func (c *container) status() *runtimeapi.ContainerStatusResponse {
	c.t.Helper()
	r, err := c.ContainerStatus(callContext(c.t), &runtimeapi.ContainerStatusRequest{ContainerId: c.id, Verbose: true})
	env.Check(c.t, err)
	return r
}

func (c *container) pid() int {
	c.t.Helper()
	return pidOf(c.t, c.status().Info)
}

// wait waits for the container's end and returns its exit code.
func (c *container) wait() int32 {
	c.t.Helper()
	var s *runtimeapi.ContainerStatus
	env.Eventually(c.t, "the end of "+c.name, func() bool {
		s = c.status().Status
		return s.State == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	return s.ExitCode
}

// log is what the container has written.
func (c *container) log() string {
	text, err := os.ReadFile(filepath.Join(c.logs, c.config.LogPath))
	if err != nil {
		c.t.Error(err)
	}
	return string(text)
}

// logged waits until the container's log has a text: the last of it may be written after the container's end is known.
func (c *container) logged(text string) {
	c.t.Helper()
	env.Eventually(c.t, fmt.Sprintf("%q in the log of %s", text, c.name), func() bool { return strings.Contains(c.log(), text) })
}

// namespace is the inode of a process's namespace.
func namespace(t *testing.T, pid int, kind string) string {
	t.Helper()
	return env.ProcLink(t, pid, "ns/"+kind)
}

// hosts is the inode of a namespace of the machine's, as far as this process has it.
func hosts(t *testing.T, kind string) string { return namespace(t, os.Getpid(), kind) }
