package rootfs

import (
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// TestUnknownStorage: a plan whose storage this version does not know mounts nothing, least of all the directory itself.
func TestUnknownStorage(t *testing.T) {
	src, err := bindsource.Open(t.TempDir(), bindsource.Engine{})
	must(t, err)
	defer src.File.Close()
	for _, name := range []plan.Storage{"", "later"} {
		f, err := new(stager).clone(plan.Bind{Storage: name}, src)
		if err == nil || f != nil || !strings.Contains(err.Error(), "no storage is called") {
			t.Errorf("%q: %v, %v", name, f, err)
		}
	}
}
