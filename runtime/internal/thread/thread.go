// Package thread lends a thread to what changes one: namespaces, mounts, filters.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Own runs f on a thread that ends with it, and with the thread all that f
// changed of it: namespaces, mounts, filters. The process's main thread is
// never used: it cannot end, and /proc/self shows its namespaces.
func Own(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return // locked: the thread ends
		}
		defer runtime.UnlockOSThread()
		inner := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // the main thread is held, so this is another
			inner <- f()
		}()
		done <- <-inner
	}()
	return <-done
}
