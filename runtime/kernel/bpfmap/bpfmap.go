// Package bpfmap reads and writes the entries of a pinned hash map (bpf(2)), whose keys are 32
// bits. It is on the path of a jail's creation: the library by which programs are loaded is not.
package bpfmap

import (
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
	if err == unix.ENOENT {
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

// Call is bpf(2). What attr names by its address must not move meanwhile.
func Call(command int, attr unsafe.Pointer, size uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}
