package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// ReviewAnnotations request a small view of each writable directory.
var ReviewAnnotations = []string{"--annotation", "dev.agentjail.workspace=review", "--annotation", "dev.agentjail.workspace.size=32MiB"}

// Reviewed holds that what a container, which is gone, wrote to the file new of a directory of uid 1000 is in a view of it, and in
// the directory after an apply. agentjail runs a command for people where the engine is.
func Reviewed(t *testing.T, dir string, agentjail func(args ...string) Result) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
		t.Fatal("the directory has what the container wrote")
	}
	r := agentjail("workspace", "list", "--json")
	var list struct {
		Views []struct{ ID, Directory, State string }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &list); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	for _, v := range list.Views {
		if v.Directory != dir {
			continue
		}
		t.Cleanup(func() { agentjail("workspace", "discard", v.ID) })
		if v.State != "ended" {
			t.Errorf("the view is %s", v.State)
		}
		if r := agentjail("workspace", "apply", v.ID); r.Code != 0 {
			t.Error(r)
		}
		st, err := os.Lstat(filepath.Join(dir, "new"))
		if err != nil {
			t.Fatal(err)
		}
		if s := st.Sys().(*syscall.Stat_t); s.Uid != 1000 {
			t.Errorf("the file belongs to %d", s.Uid)
		}
		return
	}
	t.Fatalf("no view of %s: %s", dir, r)
}
