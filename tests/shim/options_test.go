package shim

import (
	"fmt"
	"testing"

	taskAPI "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/api/types/runtimeoptions/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// Options of every kind are understood, and name the policy that the jail is made by; none names the delegate.
func TestOptionsNamePolicies(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		file := engine.PolicyFile(t, "[limits]\npids = 100\n[policies.tiny.limits]\npids = 50\n")
		host := startJail(t, c) // for its shim
		ctx, task := dialShim(t, c, host)
		for _, try := range []struct {
			what string
			kind string
			in   proto.Message
			pids int64
		}{
			{"none", "", nil, 1024},
			{"another delegate", "containerd.runc.v1.Options", &options.Options{BinaryName: "/bin/false", NoPivotRoot: true, NoNewKeyring: true}, 1024},
			{"a policy file", "runtimeoptions.v1.Options", &runtimeoptions.Options{TypeUrl: "agentjail", ConfigPath: file}, 100},
			{"a table", "runtimeoptions.v1.Options", &runtimeoptions.Options{ConfigBody: fmt.Appendf(nil, "config = %q\npolicy = 'tiny'\nBinaryName = '/bin/false'\n", file)}, 50},
			{"old ones", "containerd.linux.runc.CreateOptions", &options.Options{}, 1024},
		} {
			bundle := engine.NewBundle(t, c.Dir)
			id := bundle.ID()
			bundle.Spec.Linux.CgroupsPath = "/" + c.CgroupParent() + "/" + id
			bundle.Write(t)
			r := &taskAPI.CreateTaskRequest{ID: id, Bundle: bundle.Dir}
			if try.in != nil {
				value, err := proto.Marshal(try.in)
				env.Check(t, err)
				r.Options = &anypb.Any{TypeUrl: try.kind, Value: value}
			}
			if _, err := task.Create(ctx, r); err != nil {
				t.Errorf("%s: %v", try.what, err)
				continue
			}
			if j := record(t, c, id); j == nil || j.Policy.Limits.Pids != try.pids {
				t.Errorf("%s: %+v", try.what, j)
			}
			_, _ = task.Kill(ctx, &taskAPI.KillRequest{ID: id, Signal: 9})
			env.Eventually(c, "the jail is removed", func() bool { _, err := task.Delete(ctx, &taskAPI.DeleteRequest{ID: id}); return err == nil })
		}
		c.Remove(host)
		nothingLeft(t, c)
	})
}
