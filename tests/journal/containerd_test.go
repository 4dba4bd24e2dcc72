package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
	"agentjail.dev/tests/journal/refusal"
)

// containerd is a containerd with agentjail's shim, whose client gives it a configuration that requests everything.
func (h *host) containerd(t *testing.T, rows []refusal.Row) *refusal.Place {
	dir := env.Get(t, engine.Shim)
	d, err := engine.StartContainerd(engine.ContainerdOptions{Shims: []string{dir}, Log: t.Logf})
	env.Check(t, err)
	env.AtEnd(t, d.Close)
	c, b := d.For(t), requesting(t, d.Dir, rows)
	id := b.ID()
	b.Spec.Root.Path = b.Rootfs
	b.Spec.Linux.CgroupsPath = "/" + d.CgroupParent() + "/" + id
	b.Write(t)
	c.Must("run", "-d", "--runtime", engine.ShimRuntime, "--runtime-config-path", h.config, "--config", filepath.Join(b.Dir, "config.json"), id)
	execID := 0
	run := func(args ...string) engine.Result {
		execID++
		return c.Ctr(slices.Concat([]string{"tasks", "exec", "--exec-id", fmt.Sprint("exec-", execID)}, args)...)
	}
	p := &refusal.Place{Denied: h.denied(id), Update: func(pids, memory int64) error { return update(d, id, pids, memory) }}
	p.Exec, p.Detached = execs(run, id, nil, []string{"--detach"})
	return p
}

// update requests other limits from containerd: ctr has no verb for that.
func update(d *engine.Containerd, id string, pids, memory int64) error {
	conn, err := grpc.NewClient("unix://"+d.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	var want specs.LinuxResources
	if pids != 0 {
		want.Pids = &specs.LinuxPids{Limit: &pids}
	}
	if memory != 0 {
		want.Memory = &specs.LinuxMemory{Limit: &memory}
	}
	text, err := json.Marshal(want)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(context.Background(), d.Namespace()), env.CommandWait)
	defer cancel()
	_, err = tasks.NewTasksClient(conn).Update(ctx, &tasks.UpdateTaskRequest{
		ContainerID: id,
		Resources:   &anypb.Any{TypeUrl: "types.containerd.io/opencontainers/runtime-spec/1/LinuxResources", Value: text},
	})
	return err
}
