// Package thread runs functions that change their thread (namespaces, mounts, filters) on one of
// their own.
package thread

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

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
			done <- Caught(f)
			return // locked: the thread ends
		}
		defer runtime.UnlockOSThread()
		inner := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // the main thread is held, so this is another
			inner <- Caught(f)
		}()
		done <- <-inner
	}()
	return <-done
}

// Beside calls f while the caller goes on, and sends its error. A panic is an error.
func Beside(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- Caught(f) }()
	return done
}

// Together calls both at once, and returns when both have. A panic of either is an error.
func Together(here, beside func() error) error {
	done := Beside(beside)
	err := Caught(here)
	return errors.Join(err, <-done)
}

// A Panic is an error of the program's own.
type Panic struct {
	Value any
	Stack []byte // as the Go runtime prints it
}

// Error names what was panicked with, without the stack.
func (p *Panic) Error() string { return fmt.Sprintf("internal error: %v", p.Value) }

// Caught makes a panic an error, so that what was made so far is undone, and a
// process that serves other jails goes on.
func Caught(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Panic{p, debug.Stack()}
		}
	}()
	return f()
}
