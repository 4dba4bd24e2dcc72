package shim

import (
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
)

// TestReview: by annotations a container writes into a view of its directory, and the directory changes by apply alone.
func TestReview(t *testing.T) {
	engine.NeedsViews(t)
	each(t, func(t *testing.T, c *engine.CT) {
		if err := promise.View(t, promise.Query, promise.ViewByCtr(c, newID()), 2); err != nil {
			t.Error(err)
		}
	})
}
