package main

import (
	"encoding/json"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// counts takes all that it is given of what the kernel counts by user: instances of inotify, and timers, each of which
// holds room for a pending signal. It reports how many of each and how that ended, and keeps them.
func counts(args []string) (any, error) {
	runtime.LockOSThread()
	taken := map[string]map[string]any{}
	for _, kind := range []struct {
		name string
		take func() error
	}{
		{"inotify instances", func() error { _, err := unix.InotifyInit1(unix.IN_CLOEXEC); return err }},
		{"pending signals", makeTimer},
	} {
		const most = 10000
		n := 0
		err := kind.take()
		for ; n < most && err == nil; n++ {
			err = kind.take()
		}
		taken[kind.name] = map[string]any{"taken": n, "errno": errnoName(err)}
	}
	if err := json.NewEncoder(os.Stdout).Encode(taken); err != nil {
		return nil, err
	}
	return pause(args)
}

// makeTimer makes a timer that is never set (timer_create(2)).
func makeTimer() error {
	var id int32
	_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return errno
	}
	return nil
}
