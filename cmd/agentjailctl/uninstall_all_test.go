package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"agentjail.dev/runtime/state"
)

// TestLivingJails: jails whose process runs are found, root's and users'; not those of another
// boot, nor those that ended.
func TestLivingJails(t *testing.T) {
	dir := t.TempDir()
	root, users := filepath.Join(dir, "agentjail"), filepath.Join(dir, "user")
	start, _, err := state.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		root, id, boot string
		start          uint64
	}{
		{root, "alive", state.BootID(), start},
		{root, "ended", state.BootID(), start + 1},
		{root, "earlier", "another", start},
		{filepath.Join(users, "1000", "agentjail"), "its\x1b[2J", state.BootID(), start},
	} {
		at := filepath.Join(c.root, "jails", c.id)
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		var j state.Jail
		j.ID, j.Key, j.BootID, j.InitPid, j.InitStart = c.id, c.id, c.boot, os.Getpid(), c.start
		j.Network.Mode = "none"
		text, err := json.Marshal(&j)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "state.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := livingJails(root, users)
	if len(got) != 2 || got[0] != "alive" || got[1] == "its\x1b[2J" {
		t.Errorf("found %q", got)
	}
}
