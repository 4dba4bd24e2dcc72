package harden

import (
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

// TestAbove: what is requested above a limit is denied with the value that the jail has instead,
// and refused where policy refuses. An engine's own default is only lowered.
func TestAbove(t *testing.T) {
	const gib = 1 << 30
	small, wide := policy.Default(), policy.Default()
	small.Tmpfs.Size, small.Tmpfs.Max = 16<<20, 32<<20
	wide.Limits.Swap = gib
	i := func(n int64) *int64 { return &n }
	resource := func(change func(*specs.LinuxResources)) func(*specs.Spec) {
		return func(s *specs.Spec) {
			s.Linux.Resources = &specs.LinuxResources{}
			change(s.Linux.Resources)
		}
	}
	memory := func(m specs.LinuxMemory) func(*specs.Spec) {
		return resource(func(r *specs.LinuxResources) { r.Memory = &m })
	}
	pids := func(n int64) func(*specs.Spec) {
		return resource(func(r *specs.LinuxResources) { r.Pids = &specs.LinuxPids{Limit: &n} })
	}
	quota := func(n int64) func(*specs.Spec) {
		return resource(func(r *specs.LinuxResources) { r.CPU = &specs.LinuxCPU{Quota: &n} })
	}
	file := func(k, v string) func(*specs.Spec) {
		return resource(func(r *specs.LinuxResources) { r.Unified = map[string]string{k: v} })
	}
	ulimit := func(name string, n uint64) func(*specs.Spec) {
		return func(s *specs.Spec) {
			s.Process.Rlimits = []specs.POSIXRlimit{{Type: name, Soft: n, Hard: n}}
		}
	}
	tmpfs := func(at, options string) func(*specs.Spec) {
		return func(s *specs.Spec) {
			s.Mounts = append(s.Mounts, specs.Mount{Destination: at, Type: "tmpfs", Source: "t", Options: strings.Fields(options)})
		}
	}
	for _, c := range []struct {
		name     string
		pol      policy.Policy
		change   func(*specs.Spec)
		field    string // below "linux.resources." but for one that has a bracket
		was, now string // "" where nothing is denied
	}{
		{"--shm-size", policy.Default(), tmpfs("/dev/shm", "size=5g"), "mounts[/dev/shm].size", "5GiB", "4GiB"},
		{"--shm-size within", policy.Default(), tmpfs("/dev/shm", "size=512m"), "mounts[/dev/shm].size", "", ""},
		{"the engine's shared memory", small, tmpfs("/dev/shm", "size=65536k"), "mounts[/dev/shm].size", "", ""},
		{"--tmpfs size=", small, tmpfs("/x", "size=33m"), "mounts[/x].size", "33MiB", "32MiB"},
		{"--tmpfs size= of no bound", policy.Default(), tmpfs("/x", "size=0"), "mounts[/x].size", "0", "4GiB"},
		{"--tmpfs size= that is none", policy.Default(), tmpfs("/x", "size=lots"), "mounts[/x].size", "lots", "4GiB"},
		{"--tmpfs nr_inodes=", policy.Default(), tmpfs("/x", "nr_inodes=1m"), "mounts[/x].nr_inodes", "1m", "16384"},
		{"--memory", policy.Default(), memory(specs.LinuxMemory{Limit: i(8 * gib), Swap: i(16 * gib)}), "memory.limit", "8GiB", "4GiB"},
		{"--memory, its swap by default", policy.Default(), memory(specs.LinuxMemory{Limit: i(8 * gib), Swap: i(16 * gib)}), "memory.swap", "", ""},
		{"--memory, no swap", policy.Default(), memory(specs.LinuxMemory{Limit: i(8 * gib), Swap: i(8 * gib)}), "memory.swap", "", ""},
		{"--memory -1", policy.Default(), memory(specs.LinuxMemory{Limit: i(-1)}), "memory.limit", "unlimited", "4GiB"},
		{"--memory-swap", policy.Default(), memory(specs.LinuxMemory{Limit: i(gib), Swap: i(5 * gib)}), "memory.swap", "5GiB", "1GiB"},
		{"--memory-swap -1", wide, memory(specs.LinuxMemory{Limit: i(gib), Swap: i(-1)}), "memory.swap", "unlimited", "2GiB"},
		{"--memory-reservation", policy.Default(), memory(specs.LinuxMemory{Reservation: i(8 * gib)}), "memory.reservation", "8GiB", ""},
		{"--pids-limit", policy.Default(), pids(5000), "pids.limit", "5000", "1024"},
		{"--pids-limit -1", policy.Default(), pids(-1), "pids.limit", "unlimited", "1024"},
		{"Podman's pids", policy.Default(), pids(2048), "pids.limit", "", ""},
		{"--cpus", policy.Default(), quota(800000), "cpu.quota", "800000", "400000 of 100000"},
		{"the kubelet's processors", policy.Default(), quota(-1), "cpu.quota", "", ""},
		{"--cgroup-conf", policy.Default(), file("memory.max", "max"), "unified[memory.max]", "max", ""},
		{"--ulimit nofile", policy.Default(), ulimit("RLIMIT_NOFILE", 65536), "process.rlimits[RLIMIT_NOFILE]", "65536", "16384"},
		{"--ulimit memlock=-1", policy.Default(), ulimit("RLIMIT_MEMLOCK", 1<<64-1), "process.rlimits[RLIMIT_MEMLOCK]", "unlimited", "262144"},
		{"--ulimit core=-1", policy.Default(), ulimit("RLIMIT_CORE", 1<<64-1), "process.rlimits[RLIMIT_CORE]", "unlimited", "1"},
		{"--ulimit core=0", policy.Default(), ulimit("RLIMIT_CORE", 0), "process.rlimits[RLIMIT_CORE]", "", ""},
		{"Podman's open files", policy.Default(), ulimit("RLIMIT_NOFILE", 1048576), "process.rlimits[RLIMIT_NOFILE]", "", ""},
		{"Podman's processes", policy.Default(), ulimit("RLIMIT_NPROC", 4194304), "process.rlimits[RLIMIT_NPROC]", "", ""},
	} {
		if !strings.Contains(c.field, "s[/") && !strings.HasPrefix(c.field, "process.") {
			c.field = resources + c.field
		}
		s := with(c.change)
		f := testFacts(s)
		f.Host.Cgroup.Swap = true
		_, rep, err := Harden(s, c.pol, f)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		denied := find(rep, report.Denied, c.field)
		if want := c.was != ""; want != (len(denied) == 1) || want && (denied[0].Was != c.was || denied[0].Now != c.now) {
			t.Errorf("%s: %+v, not %s -> %s", c.name, denied, c.was, c.now)
		}
		c.pol.OnLoosen = policy.LoosenRefuse
		_, _, err = Harden(s, c.pol, f)
		if refused := err != nil && strings.Contains(err.Error(), c.field+": refused: "+c.was+" is more than policy allows"); refused != (c.was != "") {
			t.Errorf("%s, where policy refuses: %v", c.name, err)
		}
	}
	// Shared memory that the engine made, in the place of which the jail has its own.
	for room, want := range map[int64]report.Kind{1 << 30: report.Denied, 64 << 20: report.Lowered} {
		m, _, rep, err := one(t, specs.Mount{Destination: "/dev/shm", Type: "bind", Source: "/v/shm", Options: []string{"bind"}},
			&bindsource.Fact{Path: "/v/shm", Kind: bindsource.Dir, Role: bindsource.Injected, Room: room}, small)
		if got := find(rep, want, "mounts[/dev/shm].size"); err != nil || len(got) != 1 || got[0].Now != "32MiB" || m.Type != "tmpfs" {
			t.Errorf("%d: %v %+v %v", room, err, m, got)
		}
	}
}
