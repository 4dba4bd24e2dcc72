package e2e

import (
	"testing"

	"agentjail.dev/runtime/kernel/hostfacts"
)

// TestHugePageLimits: where the host counts the pages of its reserved pool, a
// jail may have none. The filter denies requesting them anyway (TestProbeAttemptsFail).
func TestHugePageLimits(t *testing.T) {
	sizes := hostfacts.Read().HugePages
	if len(sizes) == 0 {
		t.Skip("this host has no hugetlb control group, or no huge pages")
	}
	d := d(t)
	id := sleeper(d)
	for _, size := range sizes {
		file := "hugetlb." + size
		if is := cgroupValue(t, d, id, "hugetlb", file+".limit_in_bytes", file+".max"); is != 0 {
			t.Errorf("a jail may use %d bytes in pages of %s", is, size)
		}
	}
}
