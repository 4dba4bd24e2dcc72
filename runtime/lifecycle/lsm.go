package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/apparmor"
	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/spec/policy"
)

// lsmTimeout bounds the loading of a profile, which is compiled the first time.
const lsmTimeout = 30 * time.Second

// ensureLSM loads the AppArmor profile before hardening names it. If that is impossible, policy
// decides whether a jail may run without it.
func ensureLSM(ctx context.Context, f *harden.Facts, p policy.Policy) error {
	if !f.Host.AppArmor {
		return nil
	}
	err := haveProfile(ctx, p.AppArmor.Profile)
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

// haveProfile loads the profile if it is not loaded. A user's engine has the profiles that root has
// loaded.
func haveProfile(ctx context.Context, name string) error {
	if rootless.Inside() {
		switch loaded, err := apparmor.Loaded(name); {
		case err != nil:
			return err
		case !loaded:
			return fmt.Errorf("AppArmor profile %s is not loaded, and only root can load it (sudo agentjail install podman)", name)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lsmTimeout)
	defer cancel()
	_, err := apparmor.Ensure(ctx, apparmor.Params{Name: name})
	return err
}

// leaveLSM makes the delegate that this thread starts next run without a profile that only names
// it, so that processes started from it have the jail's profile alone.
func leaveLSM(d *delegate.Runtime, p *specs.Process) error {
	if p.ApparmorProfile == "" {
		return nil
	}
	return apparmor.Leave(d.Path)
}
