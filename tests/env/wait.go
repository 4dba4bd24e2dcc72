// Package env has what tests of every package share: the one way to wait, to compare and to end a
// test at an error, and a network with a name server and servers.
package env

import (
	"math/rand/v2"
	"testing"
	"time"
)

const (
	// Patience bounds what takes milliseconds, and longer on a busy or an emulated machine.
	Patience = 90 * time.Second
	// AnswerWait bounds a connection to a server in a container, whose helper may have to start first. Only a server that hangs takes that long.
	AnswerWait = 30 * time.Second
	// CommandWait bounds one command of an engine.
	CommandWait = 3 * time.Minute
)

// The pause between two polls is a part of the time that has passed, within these bounds: what takes
// a millisecond is seen at once, and what takes a minute costs no processor time. It is at least as
// long as the poll: an engine's command takes a processor that what is waited for may need.
const (
	shortestPause = 100 * time.Microsecond
	longestPause  = 100 * time.Millisecond
	pausePart     = 16
	longestPoll   = time.Second
)

// Poll calls done until it returns true, and reports whether it did within a time. It is for states
// that no event reports. It calls done once more when the time is over.
func Poll(within time.Duration, done func() bool) bool {
	for began := time.Now(); ; {
		passed := time.Since(began)
		if done() {
			return true
		}
		if passed > within {
			return false
		}
		took := time.Since(began) - passed
		time.Sleep(max(min(max(passed/pausePart, shortestPause), longestPause), min(took, longestPoll)))
	}
}

// Eventually polls until done returns true, and ends the test when it does not within CommandWait.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !Poll(CommandWait, done) {
		t.Fatalf("not within %v: %s", CommandWait, what)
	}
}

// AnyMoment pauses for a random time below most. It is for tests that interrupt a program at a
// moment without a name.
func AnyMoment(most time.Duration) { time.Sleep(rand.N(most)) }
