package account

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/rootfs/changes"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/state"
)

// noted is a directory as create notes it.
func noted(t *testing.T, dir string) state.Mounted {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := state.Mounted{At: "/work", Source: pathname.Text(dir)}
	if m.Unseen = unseen(f, plan.StorageDirect, &m); m.Unseen != "" && local[rootfs.FSName(f)] {
		t.Fatal(m.Unseen)
	}
	return m
}

// TestLookMounted: the directory that was mounted is looked at, and none that is there in its
// place.
func TestLookMounted(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "work")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := noted(t, dir)
	if m.Unseen != "" {
		t.Skip(m.Unseen)
	}
	j := &state.Brief{BootID: state.BootID(), Mounted: []state.Mounted{m}, MountedSince: 1}
	l := lookMounted(state.Store{}, j)
	if len(l) != 1 || l[0].Unseen != "" || l[0].Short == "" && !slices.Equal(l[0].Names, []string{"/"}) {
		t.Errorf("%+v", l)
	}
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		put  func() error
		want string
	}{
		{func() error { return nil }, "it cannot be opened any more"},
		{func() error { return os.Mkdir(dir, 0o755) }, "something else is where it was"},
		{func() error { return os.Symlink(dir+".old", dir) }, "something else is where it was"},
	} {
		_ = os.Remove(dir)
		if err := c.put(); err != nil {
			t.Fatal(err)
		}
		if l := lookMounted(state.Store{}, j); len(l) != 1 || !strings.Contains(l[0].Unseen, c.want) || len(l[0].Names) > 0 {
			t.Errorf("%+v, want %q", l, c.want)
		}
	}
	j.BootID = "another"
	if l := lookMounted(state.Store{}, j); l[0].Unseen != "the machine has booted since" {
		t.Errorf("%+v", l)
	}
	if l := lookMounted(state.Store{}, new(state.Brief)); l != nil {
		t.Errorf("nothing is mounted: %+v", l)
	}
}

// TestSlowFileSystemsAreNotRead: a file system that can wait for a server is not looked at, nor is a storage of
// unknown kind.
func TestSlowFileSystemsAreNotRead(t *testing.T) {
	proc, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	var m state.Mounted
	if got := unseen(proc, plan.StorageDirect, &m); !strings.HasSuffix(got, "proc") || m.Ino != 0 {
		t.Errorf("%q, %+v", got, m)
	}
	if got := unseen(proc, "elsewhere", &m); got != "its storage is elsewhere" {
		t.Errorf("%q", got)
	}
}

// TestMountedEvents: what the journal keeps fits into its events, whatever the names are.
func TestMountedEvents(t *testing.T) {
	l := MountedLook{At: "/work", Recent: changes.Recent{Changed: 400, Entries: 500, Short: "after 500 files"}}
	for range 200 {
		l.Names = append(l.Names, "/a\n\x1b[2J\u202e"+time.Now().String())
	}
	names := 0
	for _, e := range l.Events() {
		if err := e.Complete(); err != nil || e.Kind != journal.JailMounted || e.Path != "/work" {
			t.Fatalf("%v: %+v", err, e)
		}
		e.Clean()
		for _, f := range e.Detail.(journal.Mounted).Names {
			names++
			if strings.ContainsAny(f, "\n\x1b\u202e") {
				t.Errorf("%q", f)
			}
		}
	}
	if names != 200 || len(l.Names) != 200 {
		t.Errorf("%d names of %d", names, len(l.Names))
	}
	if e := (&MountedLook{At: "/work", Unseen: "x"}).Events(); len(e) != 1 || !reflect.DeepEqual(e[0].Detail, journal.Mounted{Unseen: "x"}) {
		t.Errorf("%+v", e)
	}
}
