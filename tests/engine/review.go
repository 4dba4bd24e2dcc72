package engine

import (
	"testing"

	"agentjail.dev/runtime/workspace"
)

// WithoutViews reports why this machine can make no view of a directory, or "".
func WithoutViews() string {
	if err := workspace.CheckHost(); err != nil {
		return err.Error()
	}
	return ""
}

// NeedsViews skips a test on a machine that can make no view of a directory, with the reason.
func NeedsViews(t testing.TB) {
	t.Helper()
	if why := WithoutViews(); why != "" {
		t.Skip(why)
	}
}
