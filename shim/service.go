// Package shim implements agentjail's containerd shim. containerd's own task service does what all
// shims do: input and output, terminals, exits, events, statistics. For the runtime's commands that
// the service would execute, agentjail runs its verbs in the same process, as its command line does
// (monitor).
package shim

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	taskAPI "github.com/containerd/containerd/api/runtime/task/v3"
	taskTypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task"
	"github.com/containerd/containerd/v2/pkg/identifiers"
	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/shutdown"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	runc "github.com/containerd/go-runc"
	"github.com/containerd/log"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"agentjail.dev/runtime/state"
)

// register registers the task service with the server, in place of containerd's own plugin of that
// name. events receives the service's publisher.
func register(events **publisher) {
	registry.Register(&plugin.Registration{
		Type:     plugins.TTRPCPlugin,
		ID:       "task",
		Requires: []plugin.Type{plugins.EventPlugin, plugins.InternalPlugin},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			pp, err := ic.GetByID(plugins.EventPlugin, "publisher")
			if err != nil {
				return nil, err
			}
			ss, err := ic.GetByID(plugins.InternalPlugin, "shutdown")
			if err != nil {
				return nil, err
			}
			*events = newPublisher(pp.(shim.Publisher))
			inner, err := task.NewTaskService(ic.Context, *events, ss.(shutdown.Service))
			if err != nil {
				return nil, err
			}
			statuses := new(sync.Map)
			runc.Monitor = monitor{statuses} // it has set its own
			return &service{inner, *events, new(sync.Map), statuses}, nil
		},
	})
}

// service is containerd's task service, whose requests are made safe before it gets them.
type service struct {
	taskAPI.TTRPCTaskService
	events   *publisher
	policies *sync.Map // an ioPolicy of each container, by its id, which is all that an exec names
	statuses *sync.Map // of monitor
}

// Create normalises the options: the service takes only those of its own kind.
func (s *service) Create(ctx context.Context, r *taskAPI.CreateTaskRequest) (*taskAPI.CreateTaskResponse, error) {
	if r.Checkpoint != "" {
		return nil, errgrpc.ToGRPCf(errdefs.ErrNotImplemented, "restore: refused: a restored process was never hardened")
	}
	if err := checkID(r.ID); err != nil {
		return nil, err
	}
	o, err := normalise(r.Options)
	if err != nil {
		return nil, errgrpc.ToGRPCf(errdefs.ErrInvalidArgument, "%v", err)
	}
	at := ioPolicy{parseName(o.BinaryName), r.Bundle}
	if err := at.checkStdio(r.Stdin, r.Stdout, r.Stderr); err != nil {
		return nil, errgrpc.ToGRPCf(errdefs.ErrPermissionDenied, "%v", err)
	}
	s.policies.Store(r.ID, at)
	o.SystemdCgroup = o.SystemdCgroup || systemdPath(r.Bundle)
	if r.Options, err = anypb.New(o); err != nil {
		return nil, errgrpc.ToGRPC(fmt.Errorf("encoding the options: %w", err))
	}
	r.Options.TypeUrl = "containerd.runc.v1.Options"
	answer, err := s.TTRPCTaskService.Create(ctx, r)
	if err != nil {
		s.policies.Delete(r.ID)
	}
	return answer, err
}

// Exec refuses requests that the service would not handle. The process itself is hardened when it
// is started.
func (s *service) Exec(ctx context.Context, r *taskAPI.ExecProcessRequest) (*emptypb.Empty, error) {
	if err := checkID(r.ExecID); err != nil {
		return nil, err
	}
	if r.Spec == nil {
		return nil, errgrpc.ToGRPCf(errdefs.ErrInvalidArgument, "exec without a process")
	}
	known, _ := s.policies.Load(r.ID)
	at, _ := known.(ioPolicy)
	if err := at.checkStdio(r.Stdin, r.Stdout, r.Stderr); err != nil {
		return nil, errgrpc.ToGRPCf(errdefs.ErrPermissionDenied, "%v", err)
	}
	return s.TTRPCTaskService.Exec(ctx, r)
}

// Update refuses requests that the service would not handle.
func (s *service) Update(ctx context.Context, r *taskAPI.UpdateTaskRequest) (*emptypb.Empty, error) {
	if r.Resources == nil {
		return nil, errgrpc.ToGRPCf(errdefs.ErrInvalidArgument, "update without resources")
	}
	return s.TTRPCTaskService.Update(ctx, r)
}

// Delete waits until the end of the deleted process was published: behind the deletion of the last
// task, the daemon may be disconnected.
func (s *service) Delete(ctx context.Context, r *taskAPI.DeleteRequest) (*taskAPI.DeleteResponse, error) {
	p := process{r.ID, r.ExecID}
	if r.ExecID == "" {
		p.id = r.ID
	}
	if st, err := s.State(ctx, &taskAPI.StateRequest{ID: r.ID, ExecID: r.ExecID}); err == nil &&
		st.Status == taskTypes.Status_STOPPED {
		if r.ExecID == "" {
			s.statuses.Store(r.ID, st.ExitStatus)
		}
		await(ctx, s.events.exit(p), deletePatience)
	}
	answer, err := s.TTRPCTaskService.Delete(ctx, r)
	if err == nil {
		s.events.forget(p)
		if r.ExecID == "" {
			s.policies.Delete(r.ID)
		}
	}
	return answer, err
}

// Checkpoint is refused.
func (s *service) Checkpoint(context.Context, *taskAPI.CheckpointTaskRequest) (*emptypb.Empty, error) {
	return nil, errgrpc.ToGRPCf(errdefs.ErrNotImplemented, "checkpoint: refused: a jail's memory must not be written to the host's disk")
}

// checkID refuses ids that could not be a file's name, since files are named after
// them, as the command line does.
func checkID(id string) error {
	if err := state.CheckID(id); err != nil {
		return errgrpc.ToGRPCf(errdefs.ErrInvalidArgument, "%v", err)
	}
	if err := identifiers.Validate(id); err != nil {
		return errgrpc.ToGRPC(err)
	}
	return nil
}

// RegisterTTRPC serves both versions of the task API on the one socket: their messages are the
// same, and the daemon's release determines the version that it requests.
func (s *service) RegisterTTRPC(server *ttrpc.Server) error {
	for _, version := range []string{"v2", "v3"} {
		server.RegisterService("containerd.task."+version+".Task", &ttrpc.ServiceDesc{Methods: methods(s)})
	}
	return nil
}

func methods(s taskAPI.TTRPCTaskService) map[string]ttrpc.Method {
	return map[string]ttrpc.Method{
		"State": method(s.State), "Create": method(s.Create), "Start": method(s.Start), "Delete": method(s.Delete),
		"Pids": method(s.Pids), "Pause": method(s.Pause), "Resume": method(s.Resume), "Checkpoint": method(s.Checkpoint),
		"Kill": method(s.Kill), "Exec": method(s.Exec), "ResizePty": method(s.ResizePty), "CloseIO": method(s.CloseIO),
		"Update": method(s.Update), "Wait": method(s.Wait), "Stats": method(s.Stats), "Connect": method(s.Connect),
		"Shutdown": method(s.Shutdown),
	}
}

// method adapts a service's function. A panic becomes a failed call: the shim serves other
// containers, too.
func method[Q, P any](f func(context.Context, *Q) (*P, error)) ttrpc.Method {
	return func(ctx context.Context, unmarshal func(any) error) (answer any, err error) {
		defer func() {
			if p := recover(); p != nil {
				log.G(ctx).Errorf("panic in a call with %T: %v\n%s", *new(Q), p, debug.Stack())
				err = errgrpc.ToGRPCf(errdefs.ErrInternal, "internal error: %v", p)
			}
		}()
		q := new(Q)
		if err := unmarshal(q); err != nil {
			return nil, err
		}
		return f(ctx, q)
	}
}
