package shim

import (
	"context"
	"strings"
	"sync"
	"testing"

	taskAPI "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
)

// TestIDs: the shim refuses what the command line refuses, with the same words, before anything
// is made.
func TestIDs(t *testing.T) {
	s := &service{policies: new(sync.Map)} // without containerd's service, which none of these may reach
	for _, id := range []string{"-x", "--help", "-", ".", "..", "a/b", "a b", "a,b", "a\u202eb", strings.Repeat("a", 1025)} {
		_, err1 := s.Create(context.Background(), &taskAPI.CreateTaskRequest{ID: id, Bundle: t.TempDir()})
		_, err2 := s.Exec(context.Background(), &taskAPI.ExecProcessRequest{ID: "a", ExecID: id})
		for _, err := range []error{err1, err2} {
			if err == nil || !strings.Contains(err.Error(), "invalid container ID format") || !errdefs.IsInvalidArgument(errgrpc.ToNative(err)) {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
	if err := checkID("0a1b2c"); err != nil {
		t.Error(err)
	}
}
