package lifecycle

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
)

// The least that the delegate and the init step need to start a jail: both are programs in Go, with
// some threads, more where the step stays as the init, and staging makes some directories in the
// layer (TestLeastPids of tests/e2e, TestStartErrors of tests/sandbox).
const (
	leastPids     = 5
	leastPidsInit = 16
	leastMemory   = 3 << 20
	leastInodes   = 12
)

// leastLimits refuses limits with which no jail starts, in place of the delegate's or the kernel's
// own error. stays reports that the init step stays.
func leastLimits(p *policy.Policy, r *specs.LinuxResources, stays bool) error {
	pids := int64(leastPids)
	if stays {
		pids = leastPidsInit
	}
	refuse := func(key, option string, have, least any) error {
		return refusal.New(refusal.Least, "%s of %v is below %v, the least with which a jail starts", key, have, least).
			WithRemedy("%s of %v or more, in %s", key, least, option)
	}
	switch {
	case r != nil && r.Pids != nil && r.Pids.Limit != nil && *r.Pids.Limit > 0 && *r.Pids.Limit < pids:
		return refuse("limits.pids", "policy, annotation or --pids-limit", *r.Pids.Limit, pids)
	case r != nil && r.Memory != nil && r.Memory.Limit != nil && *r.Memory.Limit > 0 && *r.Memory.Limit < leastMemory:
		return refuse("limits.memory", "policy, annotation or --memory", policy.Size(*r.Memory.Limit), policy.Size(leastMemory))
	case p.Root.Inodes < leastInodes:
		return refuse("root.inodes", "policy or annotation", p.Root.Inodes, leastInodes)
	}
	return nil
}
