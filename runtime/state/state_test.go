package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/version/form"
)

func record(id string) *Jail {
	start, _, _ := StartTime(os.Getpid())
	p := policy.Default()
	return &Jail{
		Brief: Brief{
			ID: id, Key: Key("", id), Delegate: "/usr/bin/runc", BootID: BootID(), Bundle: "/nonexistent",
			CreatorPid: os.Getpid(), CreatorStart: start, Userns: p.Userns, IDs: idmap.Map{Block: -1},
			Network: network.Decision{Mode: policy.NetworkEngine, Namespace: network.Given},
		},
		Policy: p,
	}
}

func TestRecordSurvives(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the state directory belongs to root")
	}
	s := Store{Root: t.TempDir()}
	j := record("a")
	j.Mounted = []Mounted{{At: "/work", Source: "/home/bad\xff"}}
	if err := s.Create(j); err != nil {
		t.Fatal(err)
	}
	var err error
	if j.IDs, err = s.Allocate(j.Policy.Userns, j.Key); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(j); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load(j.Key)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, j) {
		t.Fatalf("read back\n%+v\nwrote\n%+v", got, j)
	}
	if err := errors.Join(s.First(&j.Brief, 4711, 12345, 4026532567), s.Start(&j.Brief)); err != nil {
		t.Fatal(err)
	}
	brief, err := s.Brief(j.Key)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(brief, &j.Brief) || !brief.Started {
		t.Fatalf("read back\n%+v\nwrote\n%+v", brief, j.Brief)
	}
	if again, err := s.Load(j.Key); err != nil || !reflect.DeepEqual(again, j) {
		t.Fatalf("after the start: read back\n%+v, %v\nwrote\n%+v", again, err, j)
	}
	if err := s.Create(record("a")); !errors.Is(err, ErrExists) {
		t.Fatalf("a second jail of that id: %v", err)
	}
}

// TestRecordOfAnotherRelease: a whole record is read in the forms that this release knows, and a brief in
// each: every release can end and remove a jail.
func TestRecordOfAnotherRelease(t *testing.T) {
	s := Store{Root: t.TempDir()}
	j := record("a")
	if err := s.Create(j); err != nil {
		t.Fatal(err)
	}
	for n, read := range map[int]bool{0: true, form.Oldest: true, form.Number: true, form.Number + 1: false, form.Oldest - 1: false} {
		j.Form = n
		if err := s.Save(j); err != nil {
			t.Fatal(err)
		}
		got, err := s.Load(j.Key)
		if (err == nil) != read || err != nil && !strings.Contains(err.Error(), "(remedy: ") {
			t.Errorf("form %d: %+v, %v", n, got, err)
		}
		if b, err := s.Brief(j.Key); err != nil || b.ID != j.ID {
			t.Errorf("a brief of form %d: %+v, %v", n, b, err)
		}
	}
	path := filepath.Join(s.Dir(j.Key), recordFile)
	for n, read := range map[int]bool{form.Oldest: form.Oldest < form.Number, form.Number: false} {
		j.Form = n
		if err := s.Save(j); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text[:len(text)-1], `,"anotherRelease":true}`...)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Load(j.Key); (err == nil) != read || err != nil && !strings.Contains(err.Error(), "(remedy: the release that made it") {
			t.Errorf("form %d with a further field: %+v, %v", n, got, err)
		}
		if b, err := s.Brief(j.Key); err != nil || b.ID != j.ID {
			t.Errorf("a brief of form %d with a further field: %+v, %v", n, b, err)
		}
	}
}

func TestRangesAreExclusiveAndComeBack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the state directory belongs to root")
	}
	s := Store{Root: t.TempDir()}
	u := policy.Userns{Map: policy.MapRange, Pool: idmap.Pool{First: 0x78000000, Count: 4 * idmap.RangeSize}}
	seen := map[uint32]bool{}
	var maps []idmap.Map
	for _, id := range []string{"a", "b", "c", "d"} {
		j := record(id)
		if err := s.Create(j); err != nil {
			t.Fatal(err)
		}
		m, err := s.Allocate(u, j.Key)
		if err != nil {
			t.Fatal(err)
		}
		if seen[m.UIDs[0].HostID] {
			t.Fatalf("range %d is allocated twice", m.UIDs[0].HostID)
		}
		seen[m.UIDs[0].HostID] = true
		maps = append(maps, m)
	}
	e := record("e")
	if err := s.Create(e); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Allocate(u, e.Key); !errors.Is(err, errPoolFull) {
		t.Fatalf("a full pool gave a range: %v", err)
	}
	// A range that two jails use is free when both have left.
	if err := s.Share(u, maps[0], e.Key); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(u, maps[0], Key("", "a")); err != nil {
		t.Fatal(err)
	}
	f := record("f")
	if err := s.Create(f); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Allocate(u, f.Key); !errors.Is(err, errPoolFull) {
		t.Fatalf("a range in use was allocated: %v", err)
	}
	if err := s.Release(u, maps[0], e.Key); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Allocate(u, f.Key); err != nil || m.Block != maps[0].Block {
		t.Fatal(m, err)
	}
}

// TestBriefIsTheBeginning: what Brief reads of a record, without the rest, is what Load reads of
// it, whatever strings are in it.
func TestBriefIsTheBeginning(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the state directory belongs to root")
	}
	s := Store{Root: t.TempDir()}
	j := record("tricky")
	j.Bundle = `/a,"policy":{"}` // in the record its quotes are escaped
	j.CgroupDirs = []string{`","policy":{`}
	j.EngineRoot, j.EngineRootDev, j.PacketFilter = `/x\`, 7, "required"
	if err := s.Create(j); err != nil {
		t.Fatal(err)
	}
	whole, err := s.Load(j.Key)
	if err != nil {
		t.Fatal(err)
	}
	brief, err := s.Brief(j.Key)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&whole.Brief, brief) || brief.Bundle != j.Bundle {
		t.Errorf("Brief reads %+v\nand Load %+v", brief, whole.Brief)
	}
	data, err := os.ReadFile(filepath.Join(s.Dir(j.Key), recordFile))
	if err != nil {
		t.Fatal(err)
	}
	if short := briefPart(data); len(short) == len(data) || !json.Valid(short) {
		t.Errorf("of %d bytes Brief reads %d: %s", len(data), len(short), short)
	}
}

// TestSweepOfSome: a sweep that looks at some jails finds the dead among them, does not look at the
// one that its caller excludes, and passes one whose first process runs.
func TestSweepOfSome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the state directory belongs to root")
	}
	s := Store{Root: t.TempDir()}
	runs, dead, but := record("runs"), record("dead"), record("but")
	for _, j := range []*Jail{runs, dead, but} {
		j.CreatorStart++ // another process had that pid
		if err := s.Create(j); err != nil {
			t.Fatal(err)
		}
	}
	start, _, err := StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.First(&runs.Brief, os.Getpid(), start, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.First(&dead.Brief, os.Getpid(), start+1, 0); err != nil {
		t.Fatal(err)
	}
	reaped, err := s.Sweep(context.Background(), 3, but.Key, func(j *Brief) error { return s.Remove(j.Key) })
	if err != nil || len(reaped) != 1 || reaped[0] != dead.Key {
		t.Errorf("reaped %v, %v", reaped, err)
	}
	if reaped, err = s.Sweep(context.Background(), -1, "", func(j *Brief) error { return s.Remove(j.Key) }); err != nil || len(reaped) != 1 || reaped[0] != but.Key {
		t.Errorf("of all: reaped %v, %v", reaped, err)
	}
}

func TestSweepTakesOnlyTheDead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the state directory belongs to root")
	}
	s := Store{Root: t.TempDir()}
	alive, dead := record("alive"), record("dead")
	dead.CreatorStart++ // another process had that pid
	for _, j := range []*Jail{alive, dead} {
		if err := s.Create(j); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Allocate(j.Policy.Userns, j.Key); err != nil {
			t.Fatal(err)
		}
	}
	half := s.Dir("0-cut-short")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	reaped, err := s.Sweep(context.Background(), -1, "", func(j *Brief) error { return s.Remove(j.Key) })
	if err != nil {
		t.Fatal(err)
	}
	if len(reaped) != 2 {
		t.Fatalf("reaped %v", reaped)
	}
	if _, err := s.Load(alive.Key); err != nil {
		t.Fatal("the living jail is gone")
	}
	blocks, _ := readNames(s.Root + "/ids")
	if len(blocks) != 1 {
		t.Fatalf("id blocks %v: the dead jail's should be free", blocks)
	}
}

// TestSweepEndsWithItsContext: no jail is looked at once the caller gave up.
func TestSweepEndsWithItsContext(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the state directory belongs to root")
	}
	s := Store{Root: t.TempDir()}
	dead := record("dead")
	dead.CreatorStart++ // another process had that pid
	if err := s.Create(dead); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	reaped, err := s.Sweep(ctx, -1, "", func(j *Brief) error { return s.Remove(j.Key) })
	if len(reaped) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("reaped %v, %v", reaped, err)
	}
	if _, err := s.Load(dead.Key); err != nil {
		t.Errorf("the record: %v", err)
	}
}

func TestCheckID(t *testing.T) {
	for id, ok := range map[string]bool{
		"a": true, "A-b_c.d+e": true, "": false, ".": false, "..": false, "a/b": false, "a b": false, "a\x00": false, "ä": false, "a,b": false,
		"-": false, "-x": false, "--help": false, "a-": true, "_": true, "...": true, "a\u202eb": false, strings.Repeat("a", 1024): true, strings.Repeat("a", 1025): false,
	} {
		err := CheckID(id)
		if (err == nil) != ok {
			t.Errorf("CheckID(%q) = %v", id, err)
		}
		if err != nil && id != "" && !strings.HasPrefix(err.Error(), "invalid container ID format") {
			t.Errorf("CheckID(%q) returns %v", id, err)
		}
	}
}

// A jail that ended between taking its ids and recording them releases them.
func TestReleaseWithoutRecord(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the state directory belongs to root")
	}
	s := Store{Root: t.TempDir()}
	j, other := record("a"), record("b")
	for _, j := range []*Jail{j, other} {
		if err := s.Create(j); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Allocate(j.Policy.Userns, j.Key); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Release(j.Userns, j.IDs, j.Key); err != nil {
		t.Fatal(err)
	}
	blocks, err := readNames(filepath.Join(s.Root, "ids"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("the other's block is to be left: %q, %v", blocks, err)
	}
	if _, err := os.Lstat(filepath.Join(s.Root, "ids", blocks[0], other.Key)); err != nil {
		t.Error(err)
	}
}

// lockedAndDead makes the record of a jail of another boot, and locks it.
func lockedAndDead(t *testing.T) (s Store, dead *Jail, unlock func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: the state directory belongs to root")
	}
	s, dead = Store{Root: t.TempDir()}, record("a")
	dead.BootID = "of another time"
	if err := s.Create(dead); err != nil {
		t.Fatal(err)
	}
	unlock, err := s.Lock(dead.Key)
	if err != nil {
		t.Fatal(err)
	}
	return s, dead, unlock
}

// A sweep leaves alone what somebody is removing: until it looks, there may be
// another jail of that name.
func TestSweepLeavesTheLocked(t *testing.T) {
	s, dead, unlock := lockedAndDead(t)
	sweep := func() []string {
		t.Helper()
		reaped, err := s.Sweep(context.Background(), -1, "", func(j *Brief) error { return s.Remove(j.Key) })
		if err != nil {
			t.Fatal(err)
		}
		return reaped
	}
	if got := sweep(); len(got) > 0 {
		t.Errorf("reaped while it was locked: %q", got)
	}
	// The same for what an interrupted removal left.
	if err := os.Remove(filepath.Join(s.Dir(dead.Key), recordFile)); err != nil {
		t.Fatal(err)
	}
	if got := sweep(); len(got) > 0 {
		t.Errorf("a directory without a record was removed while it was locked: %q", got)
	}
	// A caller that waited for the lock meanwhile gets that of the jail that is there.
	if err := errors.Join(s.Remove(dead.Key), s.Create(record("a"))); err != nil {
		t.Fatal(err)
	}
	again, err := s.Lock(dead.Key)
	if err != nil {
		t.Fatal("the directory's lock is not the first one's: ", err)
	}
	again()
	unlock()
	if _, err := s.Lock("nothing"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	// And no caller removes what a sweep has judged, or makes another in its place.
	b := record("b")
	b.BootID = dead.BootID
	if err := s.Create(b); err != nil {
		t.Fatal(err)
	}
	judged := false
	_, err = s.Sweep(context.Background(), -1, "", func(j *Brief) error {
		judged = judged || j.Key == b.Key
		if _, err := s.lock(j.Key, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, errBusy) {
			t.Errorf("%s is not locked while it is reaped: %v", j.Key, err)
		}
		return s.Remove(j.Key)
	})
	if err != nil || !judged {
		t.Errorf("judged %v, %v", judged, err)
	}
}

// TestReclaimWaits: a process that reclaims a jail as the last waits for another that has the lock,
// and reclaims what that one leaves.
func TestReclaimWaits(t *testing.T) {
	s, dead, unlock := lockedAndDead(t)
	var st unix.Stat_t
	if err := unix.Stat(s.Dir(dead.Key), &st); err != nil {
		t.Fatal(err)
	}
	done := make(chan bool, 1)
	go func() {
		reaped, err := s.Reclaim(dead.Key, true, func(j *Brief) error { return s.Remove(j.Key) })
		done <- reaped && err == nil
	}()
	// The kernel lists who waits for a lock (proc_locks(5)).
	waiter := fmt.Sprintf(":%d 0 EOF", st.Ino)
	for waits := false; !waits; {
		select {
		case reaped := <-done:
			t.Fatalf("it did not wait: %v", reaped)
		default:
		}
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(locks)) {
			waits = waits || strings.Contains(line, "->") && strings.HasSuffix(strings.TrimSpace(line), waiter)
		}
	}
	unlock() // as the end of that process does
	if !<-done {
		t.Error("what was left was not reclaimed")
	}
}

// TestPrivateDirectoryKeepsParentPassable: a directory for the owner alone does not make its parent directory impassable, no matter
// which process makes the parent.
func TestPrivateDirectoryKeepsParentPassable(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	for name, first := range map[string]func(Store){
		"private": func(s Store) {
			if dir, err := s.Private("own"); err != nil || dir != filepath.Join(s.Root, "own") {
				t.Errorf("%s, %v", dir, err)
			}
		},
		"reported": func(s Store) {
			if !s.OncePerBoot("text") || s.OncePerBoot("text") {
				t.Error("it is not the first time, or is again")
			}
		},
	} {
		s := Store{Root: filepath.Join(t.TempDir(), "agentjail")}
		first(s)
		for _, d := range []struct {
			name string
			mode os.FileMode
		}{{"", 0o711}, {map[string]string{"private": "own", "reported": "reported"}[name], 0o700}} {
			fi, err := os.Stat(filepath.Join(s.Root, d.name))
			if err != nil || fi.Mode().Perm() != d.mode {
				t.Errorf("%s: %s: %v, %v, not %o", name, d.name, fi.Mode(), err, d.mode)
			}
		}
	}
}
