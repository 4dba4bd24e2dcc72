package shim

import (
	"testing"

	"agentjail.dev/tests/engine"
)

// The tests' own containerds work.
func TestPlain(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		if out := c.Must("run", "--rm", engine.BusyboxImage, "plain", "echo", "hello from "+c.Version()); out != "hello from "+c.Version() {
			t.Errorf("%q", out)
		}
	})
}
