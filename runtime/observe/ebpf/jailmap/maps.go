package jailmap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/bpfmap"
)

// MapName is the name of the map that is pinned, in the directory of a build.
const MapName = "registered"

// errUnseen means that no programs know of a jail: none are pinned, or their map takes nothing from
// this process.
var errUnseen = errors.New("no eBPF programs know of the jail")

// Value is struct registration of src/programs.c.
type Value struct {
	Born, Store uint64
	Owner       uint32
	Block       uint32
	Devices     uint32
	Allow       uint32
	Device      [maxDevices]uint32
}

// Value is a space as the map has it.
func (s *Space) Value() Value {
	v := Value{Born: uint64(s.Born), Store: s.Store, Owner: s.Owner, Block: s.Block, Allow: s.Allow}
	// Where several jails together have more, more of them count as the jails' own.
	v.Devices = uint32(copy(v.Device[:], s.Devices))
	return v
}

// maps are the pinned maps of every build, of which there are two while one follows the other.
type maps struct {
	open []*bpfmap.Map[Value]
	lock int
}

// maxBuilds bounds how many are looked at: the directory belongs to the reader, which no other
// program trusts.
const maxBuilds = 4

// openMaps opens those of this layout; there may be none.
func openMaps(pins string) *maps {
	m := &maps{lock: -1}
	found, _ := filepath.Glob(filepath.Join(pins, "*", MapName))
	for _, path := range found[:min(len(found), maxBuilds)] {
		if one, err := bpfmap.Open[Value](path); err == nil {
			m.open = append(m.open, one)
		}
	}
	return m
}

func (m *maps) close() {
	for _, one := range m.open {
		one.Close()
	}
	if m.lock >= 0 {
		unix.Close(m.lock)
	}
}

// put writes an entry. It fails where no map has it afterwards.
func (m *maps) put(s Space) error {
	if len(m.open) == 0 {
		return errUnseen
	}
	for _, one := range m.open {
		if err := one.Put(s.Number, s.Value()); err != nil {
			return fmt.Errorf("%w: %w", errUnseen, err)
		}
	}
	return nil
}

// remove removes an entry, unless it is that of another registry.
func (m *maps) remove(number uint32, store uint64) error {
	for _, one := range m.open {
		if v, ok := one.Get(number); !ok || v.Store != store {
			continue
		}
		if err := one.Delete(number); err != nil {
			return fmt.Errorf("removing the jail's entry of the eBPF programs: %w", err)
		}
	}
	return nil
}

// maxEntries is the size of the map.
const maxEntries = 8192

// sweep removes the entries of a registry that are stale.
func (m *maps) sweep(store uint64, stale func(number uint32) bool) error {
	var errs []error
	for _, one := range m.open {
		for _, n := range one.Keys(maxEntries) {
			if stale(n) {
				errs = append(errs, m.remove(n, store))
			}
		}
	}
	return errors.Join(errs...)
}

// Known reports whether programs that are pinned by default know a user namespace as a jail's, by
// its number.
func Known(number uint32) bool {
	m := openMaps(Pins)
	defer m.close()
	return slices.ContainsFunc(m.open, func(one *bpfmap.Map[Value]) bool {
		_, ok := one.Get(number)
		return ok
	})
}

// About is the number of a user namespace, and its owner as the machine's own has it.
func About(ns *os.File) (number, owner uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(ns.Fd()), &st); err != nil {
		return 0, 0, fmt.Errorf("the jail's user namespace: %w", err)
	}
	owner, err = unix.IoctlGetUint32(int(ns.Fd()), unix.NS_GET_OWNER_UID)
	if err != nil {
		return 0, 0, fmt.Errorf("the owner of the jail's user namespace: %w", err)
	}
	return uint32(st.Ino), owner, nil
}

// device is a device number of mountinfo as the kernel has it (MKDEV).
func device(major, minor uint32) uint32 { return major<<20 | minor&(1<<20-1) }
