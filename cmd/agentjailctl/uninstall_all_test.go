package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/runtime/workspace/homes"
)

// TestHomesAndViewsAreNamed: homes and views are named with what removes them, also those whose record is broken.
func TestHomesAndViewsAreNamed(t *testing.T) {
	dir := t.TempDir()
	h := homes.Home{Dir: filepath.Join(dir, "homes"), Program: "claude", Project: "/src/x", UID: 1000}
	record := `{"id":"abc","path":"/src/y"}`
	for path, text := range map[string]string{
		h.Path():                       "",
		h.Path() + ".json":             `{"program":"claude","project":"/src/x"}`,
		dir + "/homes/1/b.ext4":        "",
		dir + "/views/abc/record.json": record,
		dir + "/views/def/record.json": "{",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := keptWork(h.Dir, workspace.Store{Dir: dir + "/views"})
	slices.Sort(got)
	want := []string{
		"kept: the home of an agent for a project that is not recorded (remedy: agentjail home remove b, or rm " + dir + "/homes/1/b.ext4*)",
		"kept: the home of claude for /src/x (remedy: agentjail home remove " + strings.TrimSuffix(filepath.Base(h.Path()), ".ext4") + ", or rm " + h.Path() + "*)",
		"kept: view abc of /src/y (remedy: agentjail workspace apply abc, or discard abc)",
		"kept: view def of a directory that is not recorded (remedy: agentjail workspace apply def, or discard def)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("kept:\n%q\nwant\n%q", got, want)
	}
	if got := keptWork(dir+"/none", workspace.Store{Dir: dir + "/none"}); len(got) > 0 {
		t.Errorf("of nothing: %q", got)
	}
}

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
