package hostfacts

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/kernel/cgroups"
)

// hugePages lists the sizes that the kernel has (hugetlbpage.rst,
// /sys/kernel/mm/hugepages), where the hugetlb controller counts them: in
// version 2 beside the others, in version 1 where it is mounted by its name. A
// user's engine is delegated none (systemd knows no such controller).
func hugePages(groups, sizes string) []string {
	names, err := cgroups.Controllers(groups)
	if err == nil && !slices.Contains(names, "hugetlb") || err != nil && !exists(groups+"/hugetlb/cgroup.procs") {
		return nil
	}
	entries, err := os.ReadDir(sizes)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		text, kb := strings.CutPrefix(e.Name(), "hugepages-")
		text, unit := strings.CutSuffix(text, "kB")
		n, err := strconv.ParseUint(text, 10, 64)
		if !kb || !unit || err != nil || n == 0 {
			continue
		}
		out = append(out, pageSize(n))
	}
	return out
}

// pageSize names a size in KiB as the kernel names the controller's files (mm/hugetlb_cgroup.c,
// mem_fmt).
func pageSize(kb uint64) string {
	switch {
	case kb >= 1<<20:
		return fmt.Sprintf("%dGB", kb>>20)
	case kb >= 1<<10:
		return fmt.Sprintf("%dMB", kb>>10)
	}
	return fmt.Sprintf("%dKB", kb)
}
