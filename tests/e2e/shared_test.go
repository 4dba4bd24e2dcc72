package e2e

import (
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestSharedNamespaces: processes that share namespaces reach each other by signals and by abstract sockets, whatever started
// them: the first one, an exec, the first one of a container that joined.
func TestSharedNamespaces(t *testing.T) {
	d := d(t)
	main := startJail(d, engine.Busybox, "sh", "-c", `trap "echo got >>/tmp/hup" HUP
		probe echo-server @first >/tmp/serves &
		until [ -e /tmp/go ]; do sleep .05; done
		kill -TERM $(cat /tmp/go) && echo sent >/tmp/sent || echo kept >/tmp/sent
		probe connect unix,@second >/tmp/answer; mv /tmp/answer /tmp/done
		while :; do sleep .1; done`)
	await := func(what, script string) {
		t.Helper()
		env.Eventually(t, what, func() bool { return sh(d, main, script+" 2>/dev/null; true") != "" })
	}
	answered := func(text, address string) {
		t.Helper()
		if o := env.Decode[map[string]engine.Outcome](d, text)[address]; o.Errno != "" {
			t.Errorf("%s: %+v", address, o)
		}
	}
	await("a server of the first process's", "cat /tmp/serves")
	answered(sh(d, main, "probe connect unix,@first"), "unix,@first")
	// To what an exec started.
	sh(d, main, `sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >/tmp/pid
		probe echo-server @second </dev/null >/tmp/second 2>&1 & until [ -s /tmp/second ]; do sleep .05; done; mv /tmp/pid /tmp/go`)
	await("the first process's answer", "cat /tmp/done")
	env.Equal(t, "a signal to what an exec started", sh(d, main, "cat /tmp/sent"), "sent")
	answered(sh(d, main, "cat /tmp/done"), "unix,@second")
	// From a container that shares them.
	env.Equal(t, "a signal from another container", strings.TrimSpace(mustRunJail(d, "--pid", "container:"+main, engine.Busybox, "sh", "-c", "kill -HUP 1 && echo sent")), "sent")
	await("the signal's effect", "cat /tmp/hup")
	answered(mustRunJail(d, "--network", "container:"+main, engine.Busybox, "probe", "connect", "unix,@first"), "unix,@first")
}
