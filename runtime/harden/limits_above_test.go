package harden

import (
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/policy"
)

// TestQuotaOfTheGroupAbove: policy's quota is not set where the kernel would refuse it, beyond that of the group above.
func TestQuotaOfTheGroupAbove(t *testing.T) {
	for _, c := range []struct {
		above CPUQuota
		in    specs.LinuxCPU
		want  int64
	}{
		{CPUQuota{}, specs.LinuxCPU{}, 400000},
		{CPUQuota{20000, 100000}, specs.LinuxCPU{}, 20000},
		{CPUQuota{10000, 50000}, specs.LinuxCPU{}, 20000},
		{CPUQuota{20000, 100000}, specs.LinuxCPU{Quota: new(int64(10000)), Period: new(uint64(100000))}, 10000},
		{CPUQuota{20000, 100000}, specs.LinuxCPU{Quota: new(int64(-1))}, 20000},
		{CPUQuota{1000, 1000000}, specs.LinuxCPU{}, 1000},
		{CPUQuota{800000, 100000}, specs.LinuxCPU{}, 400000},
	} {
		s := with(func(s *specs.Spec) { s.Linux.Resources = &specs.LinuxResources{CPU: &c.in} })
		f := testFacts(s)
		f.ParentQuota = c.above
		res, _, err := Harden(s, policy.Default(), f)
		if err != nil {
			t.Fatal(err)
		}
		if got := *res.Spec.Linux.Resources.CPU.Quota; got != c.want {
			t.Errorf("above %+v: %d, not %d", c.above, got, c.want)
		}
	}
}
