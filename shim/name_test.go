package shim

import "testing"

// TestOwnPolicy: a shim by the name of a policy has that policy.
func TestOwnPolicy(t *testing.T) {
	for program, want := range map[string]string{
		"containerd-shim-agentjail-v2":        "",
		"containerd-shim-agentjail-strict-v2": "strict",
		"containerd-shim-agentjail-a-b-v2":    "a-b",
		"containerd-shim-agentjail-strict":    "",
		"containerd-shim-agentjail--v2":       "",
		"containerd-shim-runc-v2":             "",
		"agentjail-strict":                    "",
	} {
		if got := policyOf(program); got != want {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
	}
}
