package shim

import "testing"

// TestOwnProfile: a shim by a profile's name has the profile.
func TestOwnProfile(t *testing.T) {
	for program, want := range map[string]string{
		"containerd-shim-agentjail-v2":        "",
		"containerd-shim-agentjail-strict-v2": "strict",
		"containerd-shim-agentjail-a-b-v2":    "a-b",
		"containerd-shim-agentjail-strict":    "",
		"containerd-shim-agentjail--v2":       "",
		"containerd-shim-runc-v2":             "",
		"agentjail-strict":                    "",
	} {
		if got := profileOf(program); got != want {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
	}
}
