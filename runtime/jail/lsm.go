package jail

import (
	"context"
	"fmt"
	"time"

	"agentjail.dev/apparmor"
	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/policy"
)

// lsmTimeout bounds the loading of a profile, which compiles it the first time.
const lsmTimeout = 30 * time.Second

// ensureLSM loads the AppArmor profile before hardening names it. Where that is
// impossible, policy decides whether a jail may do without.
func ensureLSM(ctx context.Context, f *harden.Facts, p policy.Policy) error {
	if !f.Host.AppArmor {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lsmTimeout)
	defer cancel()
	_, err := apparmor.Ensure(ctx, apparmor.Params{Name: p.AppArmor.Profile})
	if err == nil {
		return nil
	}
	if p.AppArmor.Required {
		return fmt.Errorf("policy requires AppArmor: %w", err)
	}
	f.Host.AppArmor = false
	f.NoAppArmor = err.Error()
	return nil
}
