package delegate

import (
	"testing"

	"agentjail.dev/runtime/spec/traits"
)

// TestCommandLines: each boundary of the table of traits has a command line, with an option for each place of sockets.
func TestCommandLines(t *testing.T) {
	for _, name := range traits.Sandboxes() {
		boundary := traits.Of(name).Sandbox
		line, ok := commandLines[boundary]
		if !ok {
			t.Errorf("%s: no command line for the boundary %s (sandboxed.go)", name, boundary)
			continue
		}
		for _, place := range []SandboxNetwork{GuestSockets, NoSockets, HostSockets} {
			if line.network[place] == "" {
				t.Errorf("%s: no option for the sockets at %d", boundary, place)
			}
		}
	}
}
