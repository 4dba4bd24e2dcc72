package homes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/workspace"
)

// TestOpen: a home is locked while it is open, is the same the next time, is new after a reset, and nothing of a killed call is left.
func TestOpen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a home is another user's")
	}
	if err := workspace.CheckHost(); err != nil {
		t.Skip(err)
	}
	h := Home{Dir: t.TempDir(), Program: "tool", Project: "/p", UID: 1000, GID: 1000, Jail: "first", Size: 16 << 20, Files: map[string]string{"a/b": "x"}}
	dir := filepath.Dir(h.Path())
	for _, left := range []string{dir + "/.new-1", dir + "/.new-files-1/a"} {
		if err := os.MkdirAll(filepath.Dir(left), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(left, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func(reset bool) os.FileInfo {
		t.Helper()
		f, err := h.Open(reset)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, again := range []bool{false, true} {
			second := h
			second.Jail = "second"
			if _, err := second.Open(again); err == nil || !strings.Contains(err.Error(), "first has the home of tool for /p") {
				t.Errorf("a second one, reset %v: %v", again, err)
			}
		}
		fi, err := f.Stat()
		if err != nil || fi.Size() != h.Size {
			t.Fatalf("%v, %d bytes", err, fi.Size())
		}
		return fi
	}
	made, kept, reset := open(false), open(false), open(true)
	if !os.SameFile(made, kept) || os.SameFile(made, reset) {
		t.Error("it was made anew, or not after a reset")
	}
	if names, _ := filepath.Glob(dir + "/.*"); names != nil {
		t.Errorf("left: %q", names)
	}
	other := h
	other.Project = "/q"
	if other.Path() == h.Path() {
		t.Error("two projects have one home")
	}
	h.Files = map[string]string{"../x": ""}
	if _, err := h.Open(true); err == nil {
		t.Error("a file outside of the home is made")
	}
}

// TestListWhileOpened: a look at the homes keeps no jail from having one, and removes none.
func TestListWhileOpened(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a home is another user's")
	}
	if err := workspace.CheckHost(); err != nil {
		t.Skip(err)
	}
	h := Home{Dir: t.TempDir(), Program: "tool", Project: "/p", UID: 1000, GID: 1000, Jail: "first", Size: 16 << 20}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				if _, err := List(h.Dir); err != nil {
					stopped <- err
					return
				}
			}
		}
	}()
	for range 300 {
		f, err := h.Open(false)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	all, err := List(h.Dir)
	if err != nil || len(all) != 1 || all[0].Busy || all[0].Project != "/p" {
		t.Fatalf("%+v, %v", all, err)
	}
	f, err := h.Open(false)
	if err != nil {
		t.Fatal(err)
	}
	if err := all[0].Remove(); err == nil || !strings.Contains(err.Error(), "first has the home") {
		t.Errorf("removing one that a jail has: %v", err)
	}
	f.Close()
	if err := all[0].Remove(); err != nil {
		t.Error(err)
	}
}
