package env

import (
	"testing"
	"time"
)

// TestPollLooksAfterTheDeadline: what became true while a test was not scheduled is seen.
func TestPollLooksAfterTheDeadline(t *testing.T) {
	const within = time.Millisecond
	began, last := time.Now(), time.Time{}
	Poll(within, func() bool { last = time.Now(); return false })
	if last.Sub(began) < within {
		t.Errorf("its last look is %v after the first", last.Sub(began))
	}
}

// TestPollReportsFailure: what never becomes true is reported.
func TestPollReportsFailure(t *testing.T) {
	if Poll(time.Millisecond, func() bool { return false }) {
		t.Error("it reports what has not happened")
	}
}
