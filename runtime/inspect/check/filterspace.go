package check

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
)

// The first kernel that stops when thousands of filters are freed at once.
// Each freed filter is an item of the system's workqueue that takes pack_mutex
// (kernel/bpf/core.c, bpf_prog_free_deferred), and the holder may wait in vfree
// for an item of the same queue (mm/vmalloc.c, __purge_vmap_area_lazy).
const (
	freesMajor = 6
	freesMinor = 9
)

// compiledBytes is about what an instruction of a filter takes when compiled.
const compiledBytes = 10

// filterSpace compares what jails may take of the host's space for compiled
// filters with what there is.
func filterSpace(e *env) answer {
	err := thread.Own(bpf.Room)
	if errors.Is(err, bpf.ErrNoRoom) {
		return fail("`sysctl -w net.core.bpf_jit_limit=BYTES`, more than now; see docs/seccomp.md", "%v: the host has no space left for compiled filters", err)
	}
	var limit uint64
	if n, err := e.numbers("net.core.bpf_jit_limit", 1); err == nil {
		limit = n[0]
	}
	return filterSpaceOf(e.policy, hostfacts.KernelRelease(), limit)
}

// filterSpaceOf judges a policy on a host with a limit, 0 where it has none.
func filterSpaceOf(p policy.Policy, release string, limit uint64) answer {
	has := "no limit on compiled filters (net.core.bpf_jit_limit)"
	if limit > 0 {
		has = fmt.Sprintf("%s for compiled filters (net.core.bpf_jit_limit)", units.BytesSize(float64(limit)))
	}
	if !seccomp.LoadsFilters(p.Seccomp.Profile) {
		return ok("%s; the programs of profile %s load none of their own", has, p.Seccomp.Profile)
	}
	remedy := fmt.Sprintf("keep profile %s to trusted programs that need a sandbox of their own; see docs/seccomp.md", p.Seccomp.Profile)
	if atLeast(release, freesMajor, freesMinor) {
		return warn(remedy, "the programs of profile %s load filters of their own, and Linux %d.%d and later can stop when thousands are freed at once"+
			" (without the change of March 2026, \"mm/vmalloc: Use dedicated unbound workqueues for vmap drain\")", p.Seccomp.Profile, freesMajor, freesMinor)
	}
	if p.Limits.Pids <= 0 {
		return warn("set limits.pids", "%s, and nothing bounds what one jail of profile %s takes", has, p.Seccomp.Profile)
	}
	jail := uint64(p.Limits.Pids) * jailinit.OwnFilters * compiledBytes
	if limit > 0 && jail > limit/2 {
		return warn("`sysctl -w net.core.bpf_jit_limit=BYTES`, more than now, or lower limits.pids; "+remedy,
			"%s; one jail of profile %s can take %s", has, p.Seccomp.Profile, units.BytesSize(float64(jail)))
	}
	return ok("%s; one jail of profile %s can take %s", has, p.Seccomp.Profile, units.BytesSize(float64(jail)))
}

// atLeast reports whether a kernel's release is a version or later. An unreadable
// one is.
func atLeast(release string, major, minor int) bool {
	a, rest, _ := strings.Cut(release, ".")
	b := strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	x, err := strconv.Atoi(a)
	if err != nil || len(b) == 0 {
		return true
	}
	y, err := strconv.Atoi(b[0])
	return err != nil || x > major || x == major && y >= minor
}
