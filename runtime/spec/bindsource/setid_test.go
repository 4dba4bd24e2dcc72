package bindsource

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFindSetID: programs that run as the owner or group are found, and nothing
// else; a bound ends the search, and that is stated.
func TestFindSetID(t *testing.T) {
	dir := tree(t, "plain", "suid", "sub/deep/sgid", "suid-data", "sgid-lock", "sub/others", "link -> suid", "sdir/", "a/b/c/d/", "pipe|")
	uid, gid := os.Getuid(), os.Getgid()
	for name, mode := range map[string]uint32{"plain": 0o755, "suid": 0o4755, "sub/deep/sgid": 0o2755, "suid-data": 0o4644, "sgid-lock": 0o2644, "sub/others": 0o4755, "sdir": 0o6755} {
		if err := unix.Chmod(dir+"/"+name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if uid == 0 {
		if err := os.Lchown(dir+"/sub/others", 1234, 1234); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(dir+"/sub/others", 0o4755); err != nil {
			t.Fatal(err)
		}
	} else {
		os.Remove(dir + "/sub/others")
	}
	find := func(l SetIDLimits) Fact {
		s, err := Open(dir, Engine{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.File.Close()
		s.FindSetID(l)
		return s.Fact
	}
	f := find(SetIDLimits{Entries: 100, Depth: 8})
	slices.Sort(f.SetID)
	if got := strings.Join(f.SetID, " "); got != "sub/deep/sgid suid" || f.SetIDGaveUp {
		t.Errorf("found %q of %d:%d, gave up %v", got, uid, gid, f.SetIDGaveUp)
	}
	for name, l := range map[string]SetIDLimits{"entries": {3, 8}, "depth": {100, 1}} {
		if f := find(l); !f.SetIDGaveUp {
			t.Errorf("bound of %s: not reported", name)
		}
	}
	many := Fact{SetID: strings.Fields("a b c d e f g")}
	if got := many.SetIDText(); got != "a, b, c, d, e and others" {
		t.Errorf("%q", got)
	}
}

// TestOwnerMatters: where a person's own id is all that a program could have,
// nothing is searched.
func TestOwnerMatters(t *testing.T) {
	for _, c := range []struct {
		f    Fact
		want bool
	}{
		{Fact{Kind: Dir}, true},
		{Fact{Kind: Dir, UID: 1000, GID: 1000}, false},
		{Fact{Kind: Dir, UID: 1000, GID: 100}, true},
		{Fact{Kind: Dir, UID: 33, GID: 1000}, true},
		{Fact{Kind: File}, false},
		{Fact{Kind: Dir, Role: Volume}, false},
		{Fact{Kind: Dir, Rootless: true}, false},
	} {
		if got := c.f.OwnerMatters(); got != c.want {
			t.Errorf("%+v: %v", c.f, got)
		}
	}
}

// BenchmarkOpen is what a bind mount costs to judge.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		s, err := Open(dir, Engine{})
		if err != nil {
			b.Fatal(err)
		}
		s.File.Close()
	}
}

// BenchmarkFindSetID is what the search costs at its bounds.
func BenchmarkFindSetID(b *testing.B) {
	dir := b.TempDir()
	for i := range 3000 {
		if err := os.WriteFile(fmt.Sprint(dir, "/", i), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	s, err := Open(dir, Engine{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.File.Close()
	for b.Loop() {
		s.FindSetID(ReportSetID)
	}
}
