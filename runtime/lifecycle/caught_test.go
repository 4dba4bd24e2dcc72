package lifecycle

import (
	"errors"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/thread"
)

// A panic on any thread of a jail's making is an error.
func TestCaught(t *testing.T) {
	boom := func() error { var p *int; *p = 1; return nil }
	for what, err := range map[string]error{"here": thread.Caught(boom), "on another thread": onHostThread(boom), "on one of its own": thread.Own(boom)} {
		var p *thread.Panic
		if !errors.As(err, &p) || !strings.Contains(err.Error(), "internal error: runtime error: invalid memory address") || !strings.Contains(string(p.Stack), "TestCaught") {
			t.Errorf("%s: %v", what, err)
		}
	}
	want := errors.New("x")
	if err := thread.Caught(func() error { return want }); !errors.Is(err, want) {
		t.Error(err)
	}
}
