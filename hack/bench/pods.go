package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/engine"
)

// criNamespace is containerd's namespace of what CRI makes.
const criNamespace = "k8s.io"

// pods starts pods on a containerd, as a kubelet does.
type pods struct {
	runtimeapi.RuntimeServiceClient
	conn  *grpc.ClientConn
	group string
	made  int
}

// newPods makes the images and the network that pods need.
func newPods(c *engine.Containerd) (*pods, error) {
	if _, err := engine.WriteCNI(c.Dir); err != nil {
		return nil, err
	}
	layer, err := engine.PauseLayer(c.Dir)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.ImportBusybox(criNamespace),
		c.ImportImage(criNamespace, engine.PauseImage, layer, engine.ImageConfig{Entrypoint: []string{"/pause"}, User: "65535:65535"})); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix://"+c.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &pods{RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn), conn: conn, group: "/" + c.CgroupParent() + "/kubepods"}, nil
}

func (p *pods) close() error { return p.conn.Close() }

// start measures the start of a pod of one container, which it then removes.
func (p *pods) start(ctx context.Context, handler string) (out sample, err error) {
	p.made++
	profile := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	spaces := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	uid := fmt.Sprintf("0ed84a95-ce6f-bd63-c1fe-%012d", p.made)
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: fmt.Sprint("bench-", p.made), Uid: uid, Namespace: "default"},
		Hostname: "bench",
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: p.group + "/pod" + uid, SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: spaces, Seccomp: profile},
		},
	}
	begin := time.Now()
	sandbox, err := p.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	if err != nil {
		return out, err
	}
	defer func() {
		_, serr := p.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox.PodSandboxId})
		_, rerr := p.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox.PodSandboxId})
		err = errors.Join(err, serr, rerr)
	}()
	made, err := p.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox.PodSandboxId, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Image:    &runtimeapi.ImageSpec{Image: engine.BusyboxImage, UserSpecifiedImage: engine.BusyboxImage},
			Command:  []string{"/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"},
			Linux: &runtimeapi.LinuxContainerConfig{
				SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: spaces, Seccomp: profile},
			},
		},
	})
	if err != nil {
		return out, err
	}
	if _, err := p.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		return out, err
	}
	return sample{wall: time.Since(begin)}, nil
}
