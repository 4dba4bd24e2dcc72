package jailmap

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// pinned is a registry with a map as the programs have it, pinned in a bpf file system of the
// test's own.
func pinned(t *testing.T) (Registry, *ebpf.Map) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a bpf file system and pins a map")
	}
	base := t.TempDir()
	r := Registry{Root: filepath.Join(base, "state"), Pins: filepath.Join(base, "bpf", "pins")}
	for _, d := range []string{filepath.Join(r.Root, "ids"), filepath.Dir(r.Pins)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("bpf", filepath.Dir(r.Pins), "bpf", 0, "mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(filepath.Dir(r.Pins), unix.MNT_DETACH) })
	if err := os.MkdirAll(filepath.Join(r.Pins, "build"), 0o700); err != nil {
		t.Fatal(err)
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 64, MaxEntries: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if err := m.Pin(filepath.Join(r.Pins, "build", MapName)); err != nil {
		t.Fatal(err)
	}
	return r, m
}

func entry(t *testing.T, m *ebpf.Map, number uint32) (v Value, ok bool) {
	t.Helper()
	err := m.Lookup(number, &v)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Fatal(err)
	}
	return v, err == nil
}

// TestRegistry: the map has what the jails of a user namespace come to, as long as there is one;
// and gc removes what no jail has.
func TestRegistry(t *testing.T) {
	r, m := pinned(t)
	const number = 4026532215
	if err := r.add(number, "pause", Entry{Owner: 300000, Born: 10, Devices: []uint32{device(8, 1)}}); err != nil {
		t.Fatal(err)
	}
	if err := r.add(number, "work", Entry{Owner: 300000, Born: 20, Block: 1 << 10, Devices: []uint32{device(8, 1), device(8, 2)}}); err != nil {
		t.Fatal(err)
	}
	v, ok := entry(t, m, number)
	if !ok || v.Owner != 300000 || v.Born != 20 || v.Block != 1<<10 || v.Devices != 2 || v.Device[1] != 8<<20|2 {
		t.Errorf("of two jails: %+v, %v", v, ok)
	}
	all, err := r.All()
	if err != nil || len(all) != 1 || all[0].Number != number || all[0].Value() != v {
		t.Errorf("all: %+v, %v", all, err)
	}
	if err := r.remove(number, "work"); err != nil {
		t.Fatal(err)
	}
	if v, ok := entry(t, m, number); !ok || v.Block != 0 || v.Born != 10 {
		t.Errorf("of one of them: %+v, %v", v, ok)
	}
	if err := r.remove(number, "pause"); err != nil {
		t.Fatal(err)
	}
	if v, ok := entry(t, m, number); ok {
		t.Errorf("of none: %+v", v)
	}
	if _, err := os.Lstat(r.Dir(number)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
	// A crash: the files went with the jail's record, the entry stayed. Another registry's is not
	// touched.
	for n, store := range map[uint32]uint64{1: r.store(), 2: r.store() + 1} {
		if err := m.Put(n, Value{Store: store}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.add(3, "lives", Entry{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Sweep(); err != nil {
		t.Fatal(err)
	}
	var left []uint32
	for n := range uint32(8) {
		if _, ok := entry(t, m, n); ok {
			left = append(left, n)
		}
	}
	if !slices.Equal(left, []uint32{2, 3}) {
		t.Errorf("after gc: %v", left)
	}
}

// TestRegisteredWithoutMap: without a map, or with a full one, or one of another layout, a jail is registered for
// a collector to come, and its maker gets errUnseen.
func TestRegisteredWithoutMap(t *testing.T) {
	r, m := pinned(t)
	for n := range uint32(16) {
		if err := m.Put(n, Value{}); err != nil {
			t.Fatal(err)
		}
	}
	without := r
	without.Pins = filepath.Join(r.Root, "none")
	for name, r := range map[string]Registry{"no map": without, "a full map": r} {
		if err := r.add(100, name, Entry{Block: 1}); !errors.Is(err, errUnseen) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := r.All(); err != nil || len(all) != 1 || all[0].Block != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := r.add(5, "many", Entry{Devices: make([]uint32, maxDevices+1)}); err == nil || errors.Is(err, errUnseen) {
		t.Errorf("more devices than the programs know: %v", err)
	}
	other, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 60, MaxEntries: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := os.Remove(filepath.Join(r.Pins, "build", MapName)); err != nil {
		t.Fatal(err)
	}
	if err := other.Pin(filepath.Join(r.Pins, "build", MapName)); err != nil {
		t.Fatal(err)
	}
	if err := r.add(6, "layout", Entry{}); !errors.Is(err, errUnseen) {
		t.Errorf("a map of another layout: %v", err)
	}
}

func TestAbout(t *testing.T) {
	ns, err := os.Open("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	number, owner, err := About(ns)
	var st unix.Stat_t
	if serr := unix.Stat("/proc/self/ns/user", &st); serr != nil || err != nil || uint64(number) != st.Ino || owner != 0 {
		t.Errorf("%d of %d, %v; %v", number, owner, err, serr)
	}
}
