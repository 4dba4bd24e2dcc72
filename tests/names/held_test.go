package names

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// TestHeldConnection: when the helper is killed its open connections end at once, and new ones are refused and not waited for.
func TestHeldConnection(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := startJail(t, n)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := j.b.Command(ctx, j.c, "exec", j.id, client, "hold")
	s := env.Begin(t, cmd)
	s.Await(t, "hello")
	fd := pidfd(t, j.helper(t).Pid)
	env.Check(t, unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
	awaitEnd(t, fd)
	// The client itself waits without an end.
	if line := s.Line(t); !strings.HasPrefix(line, "ended") {
		t.Errorf("the connection after its helper has gone: %q, %v", line, ctx.Err())
	}
	for _, w := range ways {
		if w.want == "" {
			continue
		}
		if got, ok := j.in(t, w.args...); ok || strings.Contains(got, "timeout") || strings.Contains(got, "deadline") {
			t.Errorf("%s, without a helper: %q", w.what, got)
		}
	}
}
