package apply

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/workspace"
)

// TestStore: a recorded view is reviewed while a jail has it, and applied; an apply that was cut
// off is undone before the view is used for anything else.
func TestStore(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount")
	}
	if err := workspace.CheckHost(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	must(t, errors.Join(os.WriteFile(dir+"/old", []byte("old"), 0o644), os.Chown(dir, uid, gid), os.Chown(dir+"/old", uid, gid)))
	lower, err := os.Open(dir)
	must(t, err)
	defer lower.Close()
	s := workspace.Store{Dir: t.TempDir() + "/workspaces", Boot: "this"}
	r := &workspace.Record{At: "/w", Jail: "j", Key: "k-j", Size: workspace.MinSize, Files: 1000}
	must(t, s.Make(r, lower))
	tree, lock, err := s.Begin(r, lower)
	must(t, err)
	lock.Close()
	fd, err := unix.Openat(int(tree.Fd()), "upper/new", unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, err)
	_, err = unix.Write(fd, []byte("new"))
	must(t, errors.Join(err, unix.Fchown(fd, uid, gid), unix.Close(fd)))
	v, err := Open(s, r)
	must(t, err)
	if got, err := v.Review(t.Context(), r, nil); err != nil || !v.Live || changes(got) != "A new" {
		t.Errorf("while the jail lives: %v %v", v.Live, err)
	}
	v.Close()
	tree.Close()
	must(t, s.End("k-j"))

	// An apply that ended before it had begun anything.
	must(t, os.Mkdir(s.Journal(r), 0o700))
	if _, _, err := s.Begin(r, lower); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("a jail begins: %v", err)
	}
	if err := s.Discard(r); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("discarded: %v", err)
	}
	if lines, err := RecoverAll(t.Context(), s); err != nil || len(lines) != 1 || !strings.Contains(lines[0], "undone") {
		t.Errorf("%q %v", lines, err)
	}
	v, err = Open(s, r)
	must(t, err)
	got, err := v.Review(t.Context(), r, nil)
	must(t, err)
	if v.Live || changes(got) != "A new" {
		t.Errorf("after the jail: %v %s", v.Live, changes(got))
	}
	other, err := Lock(v.Directory)
	must(t, err)
	if _, err := Lock(v.Directory); err == nil {
		t.Error("two applies at once")
	}
	other.Close()
	if _, err := v.Run(t.Context(), got, got.Changes, Options{}); err != nil {
		t.Error(err)
	}
	v.Close()
	var st unix.Stat_t
	if text, err := os.ReadFile(dir + "/new"); err != nil || string(text) != "new" || unix.Lstat(dir+"/new", &st) != nil || st.Uid != uid {
		t.Errorf("%q of %d: %v", text, st.Uid, err)
	}
	if applied, err := s.Applied(r); err != nil || applied["new"] == 0 || applied["."] == 0 {
		t.Errorf("recorded: %v %v", applied, err)
	}
	// Where the directory is gone, nothing can be finished: the view is removed on request.
	must(t, errors.Join(os.Mkdir(s.Journal(r), 0o700), os.Rename(dir, dir+"-moved")))
	if _, err := RecoverAll(t.Context(), s); err == nil || !strings.Contains(err.Error(), "workspace discard "+r.ID) {
		t.Errorf("without its directory: %v", err)
	}
	must(t, s.Discard(r))
}
