// Package bpfmap reads and writes the entries of maps (bpf(2)) whose keys are 32 bits, and loads
// programs that have no more than such maps. It is on the path of a jail's creation: the library by
// which other programs are loaded is not.
package bpfmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Map is an open map whose values are V, which has the layout of the kernel's.
type Map[V any] struct{ fd int }

// Open opens a pinned map, if it is a hash of 32-bit keys and values of V's size.
func Open[V any](path string) (*Map[V], error) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(name)
	get := struct {
		path  uint64
		fd    uint32
		flags uint32
	}{path: uint64(uintptr(unsafe.Pointer(name)))}
	fd, err := Call(unix.BPF_OBJ_GET, unsafe.Pointer(&get), unsafe.Sizeof(get))
	if err != nil {
		return nil, fmt.Errorf("opening the map %s: %w", path, err)
	}
	m := &Map[V]{fd}
	facts := new([5]uint32) // type, id, key size, value size, entries: the beginning of struct bpf_map_info
	pin.Pin(facts)
	info := struct {
		fd, size uint32
		at       uint64
	}{uint32(fd), uint32(unsafe.Sizeof(*facts)), uint64(uintptr(unsafe.Pointer(facts)))}
	_, err = Call(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&info), unsafe.Sizeof(info))
	if err == nil && (facts[0] != unix.BPF_MAP_TYPE_HASH || facts[2] != 4 || uintptr(facts[3]) != unsafe.Sizeof(*new(V))) {
		err = errors.New("it has another layout")
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("the map %s: %w", path, err)
	}
	return m, nil
}

// New makes a map of a type (unix.BPF_MAP_TYPE_*).
func New[V any](typ uint32, entries int) (*Map[V], error) {
	attr := [5]uint32{typ, 4, uint32(unsafe.Sizeof(*new(V))), uint32(entries)} // type, sizes of key and value, entries, flags
	fd, err := Call(unix.BPF_MAP_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		return nil, fmt.Errorf("making a map: %w", err)
	}
	return &Map[V]{fd}, nil
}

// FD is the map's descriptor.
func (m *Map[V]) FD() int { return m.fd }

// Close closes the map.
func (m *Map[V]) Close() { unix.Close(m.fd) }

// Get reads an entry; false where there is none.
func (m *Map[V]) Get(key uint32) (v V, ok bool) {
	value := new(V)
	ok = element(unix.BPF_MAP_LOOKUP_ELEM, m.fd, &key, value) == nil
	return *value, ok
}

// Put writes an entry. E2BIG means that the map is full.
func (m *Map[V]) Put(key uint32, v V) error { return element(unix.BPF_MAP_UPDATE_ELEM, m.fd, &key, &v) }

// Delete removes an entry, if it is there.
func (m *Map[V]) Delete(key uint32) error {
	err := element[V](unix.BPF_MAP_DELETE_ELEM, m.fd, &key, nil)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// Keys are those of at most n entries.
func (m *Map[V]) Keys(n int) []uint32 {
	var out []uint32
	var last *uint32
	for len(out) < n {
		next := new(uint32)
		if element(unix.BPF_MAP_GET_NEXT_KEY, m.fd, last, next) != nil {
			break
		}
		out, last = append(out, *next), next
	}
	return out
}

// element is a call about one entry. The kernel receives addresses as numbers, so what is there
// must not move.
func element[T any](command, fd int, key *uint32, value *T) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	if key != nil {
		pin.Pin(key)
	}
	if value != nil {
		pin.Pin(value)
	}
	attr := struct {
		fd, _             uint32
		key, value, flags uint64
	}{fd: uint32(fd), key: uint64(uintptr(unsafe.Pointer(key))), value: uint64(uintptr(unsafe.Pointer(value)))}
	_, err := Call(command, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return err
}

// Instructions that load a number of 64 bits, and their source for a map's descriptor
// (linux/bpf.h).
const (
	sizeOfInstruction = 8
	loadNumber        = 0x18
	pseudoMapFD       = 1
)

// Attach loads a program and attaches it to a network namespace until the returned link is closed.
// text is its instructions, in which the numbers of 64 bits are those of maps.
func Attach(text []byte, typ, attach uint32, name string, netns int, maps ...int) (link int, err error) {
	text = bytes.Clone(text)
	for i := 0; i < len(text); i += sizeOfInstruction {
		if text[i] == loadNumber {
			text[i+1] |= pseudoMapFD << 4
			binary.NativeEndian.PutUint32(text[i+4:], uint32(maps[binary.NativeEndian.Uint32(text[i+4:])]))
			i += sizeOfInstruction
		}
	}
	license := []byte("Apache-2.0\x00")
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&text[0])
	pin.Pin(&license[0])
	load := struct {
		typ, insnCount          uint32
		insns, license          uint64
		logLevel, logSize       uint32
		log                     uint64
		kernVersion, flags      uint32
		name                    [16]byte
		ifindex, expectedAttach uint32
	}{
		typ: typ, insnCount: uint32(len(text) / sizeOfInstruction), expectedAttach: attach,
		insns: uint64(uintptr(unsafe.Pointer(&text[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	copy(load.name[:], name)
	prog, err := Call(unix.BPF_PROG_LOAD, unsafe.Pointer(&load), unsafe.Sizeof(load))
	if err != nil {
		return -1, fmt.Errorf("loading the program %s: %w", name, err)
	}
	defer unix.Close(prog)
	to := [4]uint32{uint32(prog), uint32(netns), attach} // and flags
	if link, err = Call(unix.BPF_LINK_CREATE, unsafe.Pointer(&to), unsafe.Sizeof(to)); err != nil {
		return -1, fmt.Errorf("attaching the program %s to the network namespace: %w", name, err)
	}
	return link, nil
}

// Call is bpf(2). Memory whose address is in attr must not move meanwhile.
func Call(command int, attr unsafe.Pointer, size uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}
