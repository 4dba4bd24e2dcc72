package main

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loop is one kind of system call. prepare returns what runs n iterations and what cleans up.
type loop struct {
	name    string
	count   int // iterations of one repetition: a millisecond or two, since longer ones are interrupted
	prepare func() (run func(n int) error, done func(), err error)
}

// groups are the loops, by what they are about: calls of the kernel, or writes to the file system's
// layer.
var groups = map[string][]loop{
	"calls": {
		{"getpid", 8000, simple(unix.SYS_GETPID, 0, 0, 0)},
		{"read", 5000, onFile("/dev/zero", unix.O_RDONLY, unix.SYS_READ)},
		{"write", 5000, onFile("/dev/null", unix.O_WRONLY, unix.SYS_WRITE)},
		{"openat+close", 600, openClose},
		{"stat", 1200, stat},
		{"mmap+munmap", 400, mapUnmap},
		{"fcntl", 5000, simple(unix.SYS_FCNTL, 1, unix.F_GETFD, 0)},
		{"futex ping-pong", 400, futex},
		{"pipe", 2000, pipe},
		{"clone+wait", 12, cloneWait},
	},
	"layer": {
		{"create and remove a file", 40, newFile(0, false)},
		{"write 4 KiB to a new file and sync", 2, newFile(4096, true)},
		{"write 1 MiB to a new file", 2, newFile(1<<20, false)},
		{"write 1 MiB to a new file and sync", 1, newFile(1<<20, true)},
	},
}

func nothing() {}

// simple makes one call with constant arguments.
func simple(nr, a, b, c uintptr) func() (func(int) error, func(), error) {
	return func() (func(int) error, func(), error) {
		return func(n int) error {
			for range n {
				if _, _, e := unix.RawSyscall(nr, a, b, c); e != 0 {
					return e
				}
			}
			return nil
		}, nothing, nil
	}
}

// onFile reads or writes a byte of a device that takes no time itself.
func onFile(path string, flags int, nr uintptr) func() (func(int) error, func(), error) {
	return func() (func(int) error, func(), error) {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, nil, fmt.Errorf("open %s: %w", path, err)
		}
		b := new([8]byte)
		return func(n int) error {
			for range n {
				if _, _, e := unix.RawSyscall(nr, uintptr(fd), uintptr(unsafe.Pointer(b)), 1); e != 0 {
					return e
				}
			}
			return nil
		}, func() { unix.Close(fd) }, nil
	}
}

// image is a file of the root file system's image, some directories deep.
const image = "/usr/local/bin/loops"

func cstring(s string) (uintptr, *byte) {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err) // a constant
	}
	return uintptr(unsafe.Pointer(p)), p
}

func openClose() (func(int) error, func(), error) {
	at, keep := cstring(image)
	cwd := unix.AT_FDCWD
	return func(n int) error {
		defer runtime.KeepAlive(keep)
		for range n {
			fd, _, e := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(cwd), at, unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
			if e != 0 {
				return e
			}
			if _, _, e := unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0); e != 0 {
				return e
			}
		}
		return nil
	}, nothing, nil
}

// newFile makes a file of a size in the current directory and removes it.
func newFile(size int, sync bool) func() (func(int) error, func(), error) {
	return func() (func(int) error, func(), error) {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i)
		}
		return func(n int) error {
			for range n {
				fd, err := unix.Open("loops.new", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
				if err != nil {
					return err
				}
				for rest := data; len(rest) > 0; {
					w, err := unix.Write(fd, rest)
					if err != nil {
						return err
					}
					rest = rest[w:]
				}
				if sync {
					err = unix.Fsync(fd)
				}
				if cerr := unix.Close(fd); err == nil {
					err = cerr
				}
				if err == nil {
					err = unix.Unlink("loops.new")
				}
				if err != nil {
					return err
				}
			}
			return nil
		}, nothing, nil
	}
}

func stat() (func(int) error, func(), error) {
	at, keep := cstring(image)
	st, cwd := new(unix.Stat_t), unix.AT_FDCWD
	return func(n int) error {
		defer runtime.KeepAlive(keep)
		for range n {
			if _, _, e := unix.RawSyscall6(fstatat, uintptr(cwd), at, uintptr(unsafe.Pointer(st)), 0, 0, 0); e != 0 {
				return e
			}
		}
		return nil
	}, nothing, nil
}

func mapUnmap() (func(int) error, func(), error) {
	const size = 16384
	none := -1
	return func(n int) error {
		for range n {
			p, _, e := unix.RawSyscall6(unix.SYS_MMAP, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, uintptr(none), 0)
			if e != 0 {
				return e
			}
			if _, _, e := unix.RawSyscall(unix.SYS_MUNMAP, p, size, 0); e != 0 {
				return e
			}
		}
		return nil
	}, nothing, nil
}

// Operations of futex(2) on memory that processes share (linux/futex.h).
const (
	futexWait = 0
	futexWake = 1
)

// await sleeps until the word is no longer while. It and set run in a process that has Go's memory
// and not its scheduler, which a function that looks at its stack could call.
//
//go:nosplit
func await(word *atomic.Uint32, while uint32) uint32 {
	for {
		if now := word.Load(); now != while {
			return now
		}
		_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(while), 0, 0, 0)
	}
}

// set changes the word and wakes who waits for that.
//
//go:nosplit
func set(word *atomic.Uint32, to uint32) {
	word.Store(to)
	_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1)
}

// futex passes a turn to another process and back, both on the same processor. The other is a bare
// copy of this one without Go's scheduler: a thread that slept in a raw call would keep one of that
// scheduler's processors to itself.
func futex() (func(int) error, func(), error) {
	const ours, others, end = 0, 1, 2
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, err
	}
	turn := (*atomic.Uint32)(unsafe.Pointer(&page[0]))
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, 0, 0, 0, 0, 0, 0)
	if e != 0 {
		return nil, nil, e
	}
	if pid == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
		for await(turn, ours) != end {
			set(turn, ours)
		}
		for {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return func(n int) error {
			for range n {
				set(turn, others)
				await(turn, others)
			}
			return nil
		}, func() {
			set(turn, end)
			_, _, _ = unix.RawSyscall6(unix.SYS_WAIT4, pid, 0, unix.WALL, 0, 0, 0)
		}, nil
}

// pipe writes a byte into a pipe and reads it back.
func pipe() (func(int) error, func(), error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	b := new([8]byte)
	return func(n int) error {
			for range n {
				if _, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(p[1]), uintptr(unsafe.Pointer(b)), 1); e != 0 {
					return e
				}
				if _, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(p[0]), uintptr(unsafe.Pointer(b)), 1); e != 0 {
					return e
				}
			}
			return nil
		}, func() {
			unix.Close(p[0])
			unix.Close(p[1])
		}, nil
}

// cloneWait makes a process that ends at once, and waits for it. No signal reports its end, since
// Go's runtime would handle that.
func cloneWait() (func(int) error, func(), error) {
	return func(n int) error {
		for range n {
			pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, 0, 0, 0, 0, 0, 0)
			if e != 0 {
				return e
			}
			if pid == 0 {
				for {
					_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
				}
			}
			if _, _, e := unix.RawSyscall6(unix.SYS_WAIT4, pid, 0, unix.WALL, 0, 0, 0); e != 0 {
				return e
			}
		}
		return nil
	}, nothing, nil
}
