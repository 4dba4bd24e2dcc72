package harden

import (
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

func TestLimits(t *testing.T) {
	const gib = 1 << 30
	i := func(v int64) *int64 { return &v }
	u := func(v uint64) *uint64 { return &v }
	type r = specs.LinuxResources
	usual := func(change func(*r)) r {
		out := r{
			Pids:   &specs.LinuxPids{Limit: i(1024)},
			Memory: &specs.LinuxMemory{Limit: i(4 * gib), Swap: i(4 * gib)},
			CPU:    &specs.LinuxCPU{Quota: i(400000), Period: u(100000)},

			HugepageLimits: []specs.LinuxHugepageLimit{{Pagesize: "2MB"}},
		}
		change(&out)
		return out
	}
	same := func(*r) {}
	for _, c := range []struct {
		name     string
		in, want r
	}{
		{"silent", r{}, usual(same)},
		{"no bounds", r{Pids: &specs.LinuxPids{Limit: i(-1)}, Memory: &specs.LinuxMemory{Limit: i(-1), Swap: i(-1)}, CPU: &specs.LinuxCPU{Quota: i(-1)}}, usual(same)},
		{"zeros", r{Pids: &specs.LinuxPids{Limit: i(0)}, Memory: &specs.LinuxMemory{Limit: i(0), Swap: i(0)}, CPU: &specs.LinuxCPU{Quota: i(0), Period: u(0)}}, usual(same)},
		{"empty objects", r{Pids: &specs.LinuxPids{}, Memory: &specs.LinuxMemory{}, CPU: &specs.LinuxCPU{}}, usual(same)},
		{"huge", r{Pids: &specs.LinuxPids{Limit: i(1 << 62)}, Memory: &specs.LinuxMemory{Limit: i(1 << 62), Swap: i(1 << 62)}, CPU: &specs.LinuxCPU{Quota: i(1 << 62)}}, usual(same)},
		{
			"tighter",
			r{Pids: &specs.LinuxPids{Limit: i(5)}, Memory: &specs.LinuxMemory{Limit: i(gib), Swap: i(gib)}, CPU: &specs.LinuxCPU{Quota: i(1000), Period: u(1000000)}},
			usual(func(o *r) {
				o.Pids, o.Memory, o.CPU = &specs.LinuxPids{Limit: i(5)}, &specs.LinuxMemory{Limit: i(gib), Swap: i(gib)}, &specs.LinuxCPU{Quota: i(1000), Period: u(1000000)}
			}),
		},
		{"swap beyond policy", r{Memory: &specs.LinuxMemory{Limit: i(gib), Swap: i(2 * gib)}}, usual(func(o *r) { o.Memory = &specs.LinuxMemory{Limit: i(gib), Swap: i(gib)} })},
		{"swap below memory", r{Memory: &specs.LinuxMemory{Limit: i(gib), Swap: i(5)}}, usual(func(o *r) { o.Memory = &specs.LinuxMemory{Limit: i(gib), Swap: i(gib)} })},
		{"reservation", r{Memory: &specs.LinuxMemory{Reservation: i(gib)}}, usual(func(o *r) { o.Memory.Reservation = i(gib) })},
		{"reservation of all", r{Memory: &specs.LinuxMemory{Reservation: i(-1)}}, usual(same)},
		{"reservation beyond the limit", r{Memory: &specs.LinuxMemory{Limit: i(gib), Reservation: i(2 * gib)}}, usual(func(o *r) { o.Memory = &specs.LinuxMemory{Limit: i(gib), Swap: i(gib)} })},
		{"OOM killer", r{Memory: &specs.LinuxMemory{DisableOOMKiller: new(true)}}, usual(same)},
		{"many periods a second", r{CPU: &specs.LinuxCPU{Quota: i(400000), Period: u(1000)}}, usual(func(o *r) { o.CPU = &specs.LinuxCPU{Quota: i(4000), Period: u(1000)} })},
		{"a period that the kernel does not have", r{CPU: &specs.LinuxCPU{Quota: i(5), Period: u(5)}}, usual(same)},
		{"real time", r{CPU: &specs.LinuxCPU{RealtimeRuntime: i(5), RealtimePeriod: u(5)}}, usual(same)},
		{"burst", r{CPU: &specs.LinuxCPU{Burst: u(5)}}, usual(same)},
		{"shares and processors", r{CPU: &specs.LinuxCPU{Shares: u(5), Cpus: "0", Mems: "0", Idle: i(1)}}, usual(func(o *r) {
			o.CPU = &specs.LinuxCPU{Shares: u(5), Cpus: "0", Mems: "0", Idle: i(1), Quota: i(400000), Period: u(100000)}
		})},
		{"network classes", r{Network: &specs.LinuxNetwork{ClassID: new(uint32(5))}}, usual(same)},
		{"huge pages", r{HugepageLimits: []specs.LinuxHugepageLimit{{Pagesize: "2MB", Limit: 5}}}, usual(same)},
		{"huge pages of another size", r{HugepageLimits: []specs.LinuxHugepageLimit{{Pagesize: "1GB", Limit: 5}}}, usual(func(o *r) {
			o.HugepageLimits = []specs.LinuxHugepageLimit{{Pagesize: "1GB", Limit: 5}, {Pagesize: "2MB"}}
		})},
		{"files of the group", r{Unified: map[string]string{
			"pids.max": "5", "memory.max": "100", "memory.swap.max": "0", "cpu.max": "400000 100000", "io.max": "8:0 rbps=1 wbps=1 riops=max", "memory.high": "max", "cpu.weight": "5", "hugetlb.2MB.max": "0",
			"memory.low": "1", "memory.min": "1", "cpu.max.burst": "1", "cgroup.procs": "1", "cpuset.cpus.partition": "root", "io.latency": "x", "../pids.max": "max", "hugetlb.../.max": "1",
		}}, usual(func(o *r) {
			o.Unified = map[string]string{"pids.max": "5", "memory.max": "100", "memory.swap.max": "0", "cpu.max": "400000 100000", "io.max": "8:0 rbps=1 wbps=1 riops=max", "memory.high": "max", "cpu.weight": "5", "hugetlb.2MB.max": "0"}
		})},
		{"files of the group, past policy", r{Unified: map[string]string{
			"pids.max": "max", "memory.max": "max", "memory.swap.max": "1", "cpu.max": "max 100000", "io.max": "8:0 wbps=max",
		}}, usual(same)},
	} {
		s := with(func(s *specs.Spec) { s.Linux.Resources = &c.in })
		res, _ := jail(t, s)
		got := *res.Spec.Linux.Resources
		got.Devices = nil
		if jsonOf(t, got) != jsonOf(t, c.want) {
			t.Errorf("%s\ngot  %s\nwant %s", c.name, jsonOf(t, got), jsonOf(t, c.want))
		}
		check(t, s, policy.Default(), testFacts(s))
	}
}

// TestSockets: socket buffers have a limit where memory does not count them.
func TestSockets(t *testing.T) {
	const def = 64 << 20
	asked := func(n int64) *specs.LinuxMemory { return &specs.LinuxMemory{KernelTCP: &n} }
	for _, c := range []struct {
		name    string
		in      *specs.LinuxMemory
		v2, has bool
		want    int64 // 0 is none
		kind    report.Kind
	}{
		{"by default", nil, false, true, def, report.Set},
		{"tighter", asked(1 << 20), false, true, 1 << 20, ""},
		{"looser", asked(1 << 40), false, true, def, report.Denied},
		{"unlimited", asked(-1), false, true, def, report.Denied},
		{"zero", asked(0), false, true, def, report.Set},
		{"version 2", asked(1 << 20), true, false, 0, report.Dropped},
		{"version 2, silent", nil, true, false, 0, ""},
		{"a kernel that does not count", nil, false, false, 0, report.Missing},
	} {
		s := with(func(s *specs.Spec) { s.Linux.Resources = &specs.LinuxResources{Memory: c.in} })
		f := testFacts(s)
		f.Host.Cgroup.V2, f.Host.Cgroup.Sockets = c.v2, c.has
		res, rep, err := Harden(s, policy.Default(), f)
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		if v := res.Spec.Linux.Resources.Memory.KernelTCP; v != nil {
			got = *v
		}
		if got != c.want {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
		var kinds []report.Kind
		for _, x := range rep.Changes {
			if x.Field == "linux.resources.memory.kernelTCP" {
				kinds = append(kinds, x.Kind)
			}
		}
		if c.kind == "" && len(kinds) > 0 || c.kind != "" && (len(kinds) != 1 || kinds[0] != c.kind) {
			t.Errorf("%s: reported as %v, not %q", c.name, kinds, c.kind)
		}
		check(t, s, policy.Default(), f)
	}
}

// TestUnified holds the bounds on control group files one by one.
func TestUnified(t *testing.T) {
	for _, c := range []struct {
		key, value string
		stays      bool
	}{
		{"pids.max", "1024", true},
		{"pids.max", "1025", false},
		{"pids.max", "max", false},
		{"pids.max", "-1", false},
		{"pids.max", "", false},
		{"pids.max", "5\nmax", false},
		{"memory.max", "4294967296", true},
		{"memory.max", "4294967297", false},
		{"memory.max", "1g", false},
		{"memory.swap.max", "0", true},
		{"memory.swap.max", "1", false},
		{"memory.swap.max", "max", false},
		{"cpu.max", "400000 100000", true},
		{"cpu.max", "400001 100000", false},
		{"cpu.max", "4000", false},
		{"cpu.max", "max", false},
		{"cpu.max", "1000 1", false},
		{"cpu.max", "0 100000", false},
		{"cpu.max", "1 2 3", false},
		{"cpu.max", "-5 100000", false},
		{"io.max", "8:0 rbps=419430400 wbps=209715200", true},
		{"io.max", "8:0 rbps=419430401", false},
		{"io.max", "8:0 wbps=max", false},
		{"io.max", "8:0 rbps=1 wbps=x", false},
		{"io.max", "8:0 rbps=1\n8:0 rbps=max", false},
		{"io.max", "8:0 foo=1", false},
		{"io.max", "8:0", true},
		{"memory.high", "max", true},
		{"cpu.weight", "10000", true},
		{"cpuset.cpus", "0", true},
		{"memory.low", "0", false},
		{"cpu.weight.nice", "-20", false},
		{"cgroup.freeze", "1", false},
		{"cgroup.type", "threaded", false},
		{"devices.allow", "a", false},
		{"", "", false},
		{"hugetlb.1GB.rsvd.max", "0", true},
		{"hugetlb.2MB.max", "max", false},
		{"hugetlb.2MB.max", "4194304", false},
		{"hugetlb.max", "0", false},
		{"hugetlb./.max", "0", false},
	} {
		s := with(func(s *specs.Spec) {
			s.Linux.Resources = &specs.LinuxResources{Unified: map[string]string{c.key: c.value}}
		})
		res, rep := jail(t, s)
		if _, got := res.Spec.Linux.Resources.Unified[c.key]; got != c.stays {
			t.Errorf("%s = %q stays: %v", c.key, c.value, got)
		}
		const field = "linux.resources.unified*"
		if gone := len(find(rep, report.Dropped, field))+len(find(rep, report.Denied, field)) == 1; gone == c.stays {
			t.Errorf("%s = %q: %v", c.key, c.value, rep.Changes)
		}
	}
}

// A host without controllers: the report reports what is missing, and what the
// bundle requests is still held to policy.
func TestLimitsWithoutControllers(t *testing.T) {
	s := mount(specs.Mount{Destination: "/work", Type: "bind", Source: "/home/dev/project", Options: []string{"rbind"}})
	f := testFacts(s)
	f.Host.Cgroup.Pids, f.Host.Cgroup.Memory, f.Host.Cgroup.CPU, f.Host.Cgroup.IO, f.Host.Cgroup.Swap = false, false, false, false, false
	res, rep, err := Harden(s, policy.Default(), f)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"pids", "memory", "cpu", "blockIO"} {
		if len(find(rep, report.Missing, "linux.resources."+field)) != 1 {
			t.Errorf("%s is not named: %v", field, rep.Of(report.Missing))
		}
	}
	r := res.Spec.Linux.Resources
	if r.Pids != nil || r.Memory != nil || r.CPU != nil || r.BlockIO != nil {
		t.Errorf("what the delegate would stumble over: %s", jsonOf(t, r))
	}
	s.Linux.Resources = &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: new(int64(5000))}, Memory: &specs.LinuxMemory{Limit: new(int64(1 << 40)), Swap: new(int64(-1))}, CPU: &specs.LinuxCPU{Quota: new(int64(-1))}}
	res, _, err = Harden(s, policy.Default(), f)
	r = res.Spec.Linux.Resources
	if err != nil || *r.Pids.Limit != 1024 || *r.Memory.Limit != 4<<30 || r.Memory.Swap != nil || *r.CPU.Quota != 400000 {
		t.Errorf("%v %s", err, jsonOf(t, r))
	}
}

// Where policy sets no bound, the bundle's own holds, and none is made up.
func TestNoBounds(t *testing.T) {
	pol := policy.Default()
	pol.Limits.Pids, pol.Limits.Memory, pol.Limits.CPUs, pol.Limits.NoFile, pol.Limits.MemLock, pol.Limits.IORead, pol.Limits.IOWrite, pol.Limits.Sockets = 0, 0, 0, 0, 0, 0, 0, 0
	s := mount(specs.Mount{Destination: "/work", Type: "bind", Source: "/home/dev/project", Options: []string{"rbind"}})
	res, _, err := Harden(s, pol, testFacts(s))
	if err != nil {
		t.Fatal(err)
	}
	const denied = `"hugepageLimits":[{"pageSize":"2MB","limit":0}]` // whatever policy bounds
	r := *res.Spec.Linux.Resources
	r.Devices = nil
	if jsonOf(t, r) != "{"+denied+"}" {
		t.Errorf("%s", jsonOf(t, r))
	}
	s.Linux.Resources = &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: new(int64(5)), Swap: new(int64(7)), DisableOOMKiller: new(true)}, CPU: &specs.LinuxCPU{Quota: new(int64(-1)), RealtimeRuntime: new(int64(1))}}
	res, _, err = Harden(s, pol, testFacts(s))
	r = *res.Spec.Linux.Resources
	r.Devices = nil
	if err != nil || jsonOf(t, r) != `{"memory":{"limit":5,"swap":7},"cpu":{"quota":-1},`+denied+"}" {
		t.Errorf("%v %s", err, jsonOf(t, r))
	}
}

// TestThrottles: the disks behind writable mounts, each once, to policy's rates
// or the bundle's lower ones.
func TestThrottles(t *testing.T) {
	s := mount(
		specs.Mount{Destination: "/work", Type: "bind", Source: "/home/dev/project", Options: []string{"rbind"}},
		specs.Mount{Destination: "/again", Type: "bind", Source: "/home/dev/project", Options: []string{"rbind"}},
		specs.Mount{Destination: "/data", Type: "bind", Source: "/var/lib/docker/volumes/v/_data", Options: []string{"rbind"}},
		specs.Mount{Destination: "/ro", Type: "bind", Source: "/home/dev/other", Options: []string{"rbind", "ro"}},
	)
	f := testFacts(s)
	f.Sources[5].DiskMajor, f.Sources[5].DiskMinor = 9, 9
	low := specs.LinuxThrottleDevice{Rate: 5}
	low.Major, low.Minor = 8, 16
	none := specs.LinuxThrottleDevice{}
	none.Major = 8
	s.Linux.Resources = &specs.LinuxResources{BlockIO: &specs.LinuxBlockIO{
		ThrottleWriteBpsDevice: []specs.LinuxThrottleDevice{{Rate: 1 << 40, LinuxBlockIODevice: low.LinuxBlockIODevice}, low}, ThrottleReadBpsDevice: []specs.LinuxThrottleDevice{none},
	}}
	res, _, err := Harden(s, policy.Default(), f)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"throttleReadBpsDevice":[{"major":8,"minor":0,"rate":419430400},{"major":8,"minor":16,"rate":419430400}],` +
		`"throttleWriteBpsDevice":[{"major":8,"minor":16,"rate":209715200},{"major":8,"minor":16,"rate":5},{"major":8,"minor":0,"rate":209715200}]}`
	if got := jsonOf(t, res.Spec.Linux.Resources.BlockIO); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestThrottledLayers: the disk of the root's layer and of views, too, where there are any.
func TestThrottledLayers(t *testing.T) {
	for _, c := range []struct {
		change func(*policy.Policy)
		source string
		want   []int64 // majors
	}{
		{func(*policy.Policy) {}, "", nil},
		{func(*policy.Policy) {}, "/home/dev/project", []int64{8}},
		{func(p *policy.Policy) { p.Root.Backing = policy.RootDisk }, "", []int64{7}},
		{func(p *policy.Policy) { p.Root.Backing = policy.RootDisk }, "/home/dev/project", []int64{8, 7}},
		{func(p *policy.Policy) { p.Workspace.Review = []string{"/home/**"} }, "/home/dev/project", []int64{8, 7}},
		{func(p *policy.Policy) { p.Workspace.Review = []string{"/home/**"} }, "", nil},
	} {
		s, pol := small(), policy.Default()
		if c.source != "" {
			s = mount(specs.Mount{Destination: "/work", Type: "bind", Source: c.source, Options: []string{"rbind"}})
		}
		c.change(&pol)
		f := testFacts(s)
		f.LayerDisk = Disk{Major: 7, Minor: 1}
		res, _, err := Harden(s, pol, f)
		if err != nil {
			t.Fatal(err)
		}
		b := res.Spec.Linux.Resources.BlockIO
		if b == nil {
			b = &specs.LinuxBlockIO{}
		}
		for _, list := range [][]specs.LinuxThrottleDevice{b.ThrottleReadBpsDevice, b.ThrottleWriteBpsDevice} {
			var got []int64
			for _, d := range list {
				got = append(got, d.Major)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, root %s, review %q: %v, not %v", c.source, pol.Root.Backing, pol.Workspace.Review, got, c.want)
			}
		}
	}
}
