package apply

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/workspace"
)

// begun makes a store with a view of a directory with these files, and begins it for a jail that
// writes others.
func begun(t *testing.T, old, written []string) (s workspace.Store, r *workspace.Record, dir string, lower, tree *os.File) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount")
	}
	if err := workspace.CheckHost(); err != nil {
		t.Skip(err)
	}
	dir = t.TempDir()
	for _, f := range old {
		must(t, errors.Join(os.WriteFile(dir+"/"+f, []byte("old"), 0o644), os.Chown(dir+"/"+f, uid, gid)))
	}
	must(t, os.Chown(dir, uid, gid))
	lower, err := os.Open(dir)
	must(t, err)
	t.Cleanup(func() { lower.Close() })
	s = workspace.Store{Dir: t.TempDir() + "/workspaces", Boot: "this"}
	r = &workspace.Record{At: "/w", Jail: "j", Key: "k-j", Size: workspace.MinSize, Files: 1000}
	must(t, s.Make(r, lower))
	tree, lock, err := s.Begin(r, lower)
	must(t, err)
	lock.Close()
	for _, f := range written {
		fd, err := unix.Openat(int(tree.Fd()), "upper/"+f, unix.O_CREAT|unix.O_WRONLY, 0o644)
		must(t, err)
		_, err = unix.Write(fd, []byte("new"))
		must(t, errors.Join(err, unix.Fchown(fd, uid, gid), unix.Close(fd)))
	}
	return s, r, dir, lower, tree
}

// TestRecordedViewIsReviewedAndApplied: a recorded view is reviewed while a jail has it, and applied; an apply that was cut
// off is undone before the view is used for anything else.
func TestRecordedViewIsReviewedAndApplied(t *testing.T) {
	s, r, dir, lower, tree := begun(t, []string{"old"}, []string{"new"})
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
	must(t, v.Lock())
	other, err := Open(s, r)
	must(t, err)
	if err := other.Lock(); !errors.Is(err, errBusy) {
		t.Errorf("two applies at once: %v", err)
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

// TestClockSetBack: what the owner changes is a conflict also where the clock was set back before,
// whether it is still wrong, was set right while a jail had the view or after its end, or is so in
// another boot.
func TestClockSetBack(t *testing.T) {
	// The clock of now is the one that was set back: the record has that of a view that began with
	// another.
	for name, change := range map[string]func(*workspace.Store, *workspace.Record){
		"since": func(_ *workspace.Store, r *workspace.Record) { r.Booted += int64(time.Hour) },
		"put right": func(_ *workspace.Store, r *workspace.Record) {
			r.Back, r.Booted = int64(time.Hour), r.Booted-int64(time.Minute)
		},
		"other boot": func(s *workspace.Store, _ *workspace.Record) { s.Boot = "other" },
		// The edit alone is of a time before the view.
		"put right between two looks": func(*workspace.Store, *workspace.Record) {},
	} {
		t.Run(name, func(t *testing.T) {
			files := []string{"edited", "kept"}
			s, r, dir, _, tree := begun(t, files, files)
			tree.Close()
			must(t, s.End("k-j"))
			must(t, os.WriteFile(dir+"/edited", []byte("owner"), 0o644))
			r, err := s.Open(r.ID)
			must(t, err)
			r.Since += int64(time.Hour)
			change(&s, r)
			v, err := Open(s, r)
			must(t, err)
			defer v.Close()
			got, err := v.Review(t.Context(), r, nil)
			must(t, err)
			var conflicts []string
			for _, c := range got.Changes {
				if strings.Contains(c.Conflict, "set back") || c.Conflict != "" && name == "put right between two looks" {
					conflicts = append(conflicts, c.Path)
				}
			}
			// All of the boot before the view is later than its start by another boot's clock.
			want := []string{"edited"}
			if name == "other boot" {
				want = append(want, "kept")
			}
			if !slices.Equal(conflicts, want) {
				t.Errorf("in conflict: %q, not %q", conflicts, want)
			}
		})
	}
}
