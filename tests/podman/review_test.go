package podman

import (
	"testing"

	"agentjail.dev/tests/engine"
)

// TestReview: by annotations a container writes into a view of its directory, and the directory changes by apply alone.
func TestReview(t *testing.T) {
	if !engine.UnderTestIsAgentjail() {
		t.Skip("views are agentjail's")
	}
	p := root(t)
	dir := shared(t, p, 1000)
	args := append([]string{"run", "--rm", "--network=none", "-v", dir + ":/w"}, engine.ReviewAnnotations...)
	eq(t, "in the container", p.Must(append(args, engine.Busybox, "sh", "-ec", "echo text >/w/new; mkdir /w/d; mv /w/d /w/d2; cat /w/new")...), "text")
	engine.Reviewed(t, dir, func(args ...string) engine.Result { return p.Run(nil, append([]string{under}, args...)...) })
}
