package check

import (
	"os"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// TestLayers: what of a host without room for a root on disk is a failure where policy has roots there, and where not a line.
func TestLayers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can open loop devices in use, which others may have")
	}
	if err := workspace.CheckHost(); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "agentjail-layers-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	e := &env{store: state.Store{Root: dir}, policy: policy.Default()}
	if err := workspace.Of(e.store).CheckDisk(); err != nil {
		t.Skip(err)
	}
	e.policy.Root.Disk, e.policy.Workspace.Size, e.policy.Disk.Free = 16<<20, 16<<20, 0
	if a := layers(e); !a.ok || !strings.Contains(a.detail, " in use of 256") || !strings.Contains(a.detail, " free") {
		t.Errorf("%+v", a)
	}
	e.policy.Disk.Free = 1 << 50
	if a := layers(e); !a.ok || !strings.Contains(a.detail, "no other can be made: "+dir+" has ") {
		t.Errorf("without room: %+v", a)
	}
	e.policy.Root.Backing = policy.RootDisk
	if a := layers(e); a.ok || a.warn || !strings.Contains(a.detail, "(disk.free)") || !strings.Contains(a.remedy, "root.backing") {
		t.Errorf("without room for roots: %+v", a)
	}
	e.policy.Disk.Free = 0
	if a := layers(e); !a.ok {
		t.Errorf("with room: %+v", a)
	}
	if e.store.Root = "/dev/shm"; workspace.Of(e.store).CheckDisk() != nil {
		if a := layers(e); a.ok || a.warn || !strings.Contains(a.detail, "is in memory") {
			t.Errorf("in memory: %+v", a)
		}
	}
}
