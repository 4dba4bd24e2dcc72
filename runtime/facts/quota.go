package facts

import (
	"path/filepath"
	"strconv"
	"strings"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/cgroups"
)

// quotaAbove returns the processor time of the nearest control group of version 1 that bounds it
// above a container's. The kernel refuses a quota beyond that (kernel/sched/core.c,
// tg_cfs_schedulable_down), where version 2 takes the least of both. The kubelet bounds the group
// of a pod. root is where the hierarchy is mounted.
func quotaAbove(root, cgroupsPath string) harden.CPUQuota {
	if !filepath.IsAbs(cgroupsPath) {
		return harden.CPUQuota{}
	}
	for dir := filepath.Dir(filepath.Clean(cgroupsPath)); dir != "/"; dir = filepath.Dir(dir) {
		number := func(file string) int64 {
			text, _ := cgroups.Read(filepath.Join(root, dir), file)
			n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return n
		}
		if quota := number("cpu.cfs_quota_us"); quota > 0 {
			if period := number("cpu.cfs_period_us"); period > 0 {
				return harden.CPUQuota{Quota: quota, Period: uint64(period)}
			}
		}
	}
	return harden.CPUQuota{}
}
