package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/env"
)

// JailIDs returns the ids of the jails below a root of states, also of those that are being made.
func JailIDs(root string) (ids []string) {
	dirs, _ := filepath.Glob(filepath.Join(root, "jails/*"))
	for _, d := range dirs {
		_, id, _ := strings.Cut(filepath.Base(d), "-")
		ids = append(ids, id)
	}
	return ids
}

// JailDir returns the directory of state of root's jail of an id.
func JailDir(t testing.TB, id string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(state.DefaultRoot, "jails/*-"+id))
	if err != nil || len(found) != 1 {
		t.Fatalf("the state of jail %s: %q, %v", id, found, err)
	}
	return found[0]
}

// Helper returns the record of the helper that root's jail of an id has.
func Helper(t testing.TB, id string) *helper.Record {
	t.Helper()
	r, err := helper.Load(JailDir(t, id))
	if err != nil || r == nil || r.Pid <= 1 {
		t.Fatalf("the record of the helper of jail %s: %+v, %v", id, r, err)
	}
	return r
}

// PolicyFile writes a policy where policies count, since only root can write there. It is removed with the test.
func PolicyFile(t testing.TB, text string) string {
	t.Helper()
	f, err := os.CreateTemp(env.Get(t, BinDir), "policy-*.toml")
	env.Check(t, err)
	defer f.Close()
	t.Cleanup(func() { os.Remove(f.Name()) })
	_, err = f.WriteString(text)
	env.Check(t, err)
	env.Check(t, f.Chmod(0o644))
	return f.Name()
}
