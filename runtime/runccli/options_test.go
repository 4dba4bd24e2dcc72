package runccli

import (
	"slices"
	"testing"

	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/runccli/passthrough"
)

// TestGlobalOptions: an option before the verb is known wherever a command line is read. One with a
// value that package passthrough does not know would have its value taken for the verb, and the
// warning that nothing is hardened would be missing.
func TestGlobalOptions(t *testing.T) {
	// What the life cycle hands to the delegate, and what it leaves out on purpose.
	handed := lifecycle.Globals{Root: "r", Log: "l", LogFormat: "f", Debug: true, SystemdCgroup: true, Rootless: "true"}.Args()
	dropped := []string{"criu", "version"}
	for _, f := range Global() {
		value, own := passthrough.TakesValue(f.Name)
		if value != (f.Kind != Switch) {
			t.Errorf("--%s: package passthrough takes it for an option with a value: %t", f.Name, value)
		}
		if !own && slices.Contains(handed, "--"+f.Name) == slices.Contains(dropped, f.Name) {
			t.Errorf("--%s: neither handed to the delegate by jail.Globals.Args nor left out on purpose", f.Name)
		}
	}
}
