package harden

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

// checkExec holds that a process of a running jail gets what the first one of
// the same spec would, and that hardening it again changes nothing.
func checkExec(t *testing.T, in *specs.Process, pol policy.Policy, f Facts) bool {
	t.Helper()
	before := jsonOf(t, in)
	got, rep, err := Process(in, pol, f)
	if jsonOf(t, in) != before || rep == nil {
		t.Fatalf("the incoming process was changed: %s", before)
	}
	if err != nil {
		if !errors.Is(err, refusal.Err) || got != nil || strings.Contains(err.Error(), "\n") {
			t.Fatalf("a refusal with %v: %q", got, err)
		}
		return false
	}
	again, _, err := Process(got, pol, f)
	if err != nil || jsonOf(t, again) != jsonOf(t, got) {
		t.Fatalf("hardened again: %v\n%s is not\n%s", err, jsonOf(t, again), jsonOf(t, got))
	}
	s := small()
	s.Process = in
	res, _, err := Harden(s, pol, withSources(f, s))
	if err != nil {
		if pol.OnLoosen == policy.LoosenRefuse || pol.AppArmor.Required {
			return true // for reasons of the rest of the spec
		}
		t.Fatalf("exec gives %s, and create refuses: %v", jsonOf(t, got), err)
	}
	if jsonOf(t, res.Spec.Process) != jsonOf(t, got) {
		t.Fatalf("exec gives %s\ncreate    %s", jsonOf(t, got), jsonOf(t, res.Spec.Process))
	}
	return true
}

func withSources(f Facts, s *specs.Spec) Facts {
	f.Sources = testFacts(s).Sources
	f.Joins = nil
	return f
}

func TestExecIsLikeCreate(t *testing.T) {
	passed := 0
	for seed := range uint64(1500) {
		g := newGen(seed)
		s := g.spec(small())
		pol := g.policy()
		if s.Process != nil && checkExec(t, s.Process, pol, g.facts(s, pol)) {
			passed++
		}
	}
	if passed < 700 {
		t.Errorf("only %d of 1500 pass", passed)
	}
}

// `docker exec --privileged` as Docker writes it: every capability.
func TestPrivilegedExec(t *testing.T) {
	for _, name := range []string{"docker-exec", "docker-privileged-exec"} {
		p := new(specs.Process)
		readFixture(t, name, p)
		got, rep, err := Process(p, policy.Default(), testFacts(small()))
		if err != nil {
			t.Fatal(err)
		}
		c := got.Capabilities
		if c == nil || len(c.Bounding)+len(c.Effective)+len(c.Permitted)+len(c.Inheritable)+len(c.Ambient) > 0 || !got.NoNewPrivileges || got.ApparmorProfile != "agentjail-default" {
			t.Errorf("%s: %s", name, jsonOf(t, got))
		}
		if lost := len(find(rep, report.Denied, "process.capabilities")); lost != map[string]int{"docker-exec": 0, "docker-privileged-exec": 1}[name] {
			t.Errorf("%s: %d lost grants: %v", name, lost, rep.Changes)
		}
		if !slices.Equal(got.Args, p.Args) || !sameEnv(got.Env, p.Env) || got.Cwd != p.Cwd || got.User.UID != 1000 {
			t.Errorf("%s: another process: %s", name, jsonOf(t, got))
		}
		pol := policy.Default()
		pol.OnLoosen = policy.LoosenRefuse
		_, _, err = Process(p, pol, testFacts(small()))
		if (err != nil) != (name == "docker-privileged-exec") {
			t.Errorf("%s under refuse: %v", name, err)
		}
	}
}

func TestExecRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*specs.Process)
		says   string
	}{
		{"no args", func(p *specs.Process) { p.Args = nil }, "no args"},
		{"a Windows command line", func(p *specs.Process) { p.Args, p.CommandLine = nil, "cmd" }, "no args"},
		{"uid past the range", func(p *specs.Process) { p.User.UID = 65536 }, "process.user.uid: refused: 65536 is none of the jail's ids (0 to 65535) (remedy: policy: userns.ids = [\"65536\"]"},
		{"gid past the range", func(p *specs.Process) { p.User.GID = 1 << 31 }, "none of the jail's ids"},
		{"a further group past the range", func(p *specs.Process) { p.User.AdditionalGids = []uint32{5, 70000} }, "process.user.additionalGids: refused: 70000 is none"},
		{"relative directory", func(p *specs.Process) { p.Cwd = "a" }, "not an absolute path"},
		{"a leaked file as directory", func(p *specs.Process) { p.Cwd = "/proc/self/fd/8" }, "CVE-2024-21626"},
		{"the same by a detour", func(p *specs.Process) { p.Cwd = "/a/..//proc/./self/fd/8" }, "CVE-2024-21626"},
		{"unknown limit", func(p *specs.Process) { p.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_X"}} }, `unknown type "RLIMIT_X"`},
		{"limit twice", func(p *specs.Process) {
			p.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_CPU"}, {Type: "RLIMIT_CPU", Hard: 5}}
		}, "lists RLIMIT_CPU twice"},
	} {
		p := clone(small().Process)
		c.change(p)
		_, _, err := Process(p, policy.Default(), testFacts(small()))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, not %q", c.name, err, c.says)
		}
	}
}

// checkUpdate holds that an update never goes above policy, never touches what
// it does not name, and is the same when hardened again.
func checkUpdate(t *testing.T, in *specs.LinuxResources, pol policy.Policy, f Facts) {
	t.Helper()
	before := jsonOf(t, in)
	got, rep, err := Resources(in, pol, f)
	if jsonOf(t, in) != before || rep == nil {
		t.Fatalf("the incoming update was changed: %s", before)
	}
	if err != nil {
		if !errors.Is(err, refusal.Err) || got != nil {
			t.Fatalf("a refusal with %v: %q", got, err)
		}
		return
	}
	for _, bad := range updateAbove(in, got, pol, f) {
		t.Fatalf("%s\nfrom %s\nto   %s\npolicy %s", bad, before, jsonOf(t, got), jsonOf(t, pol))
	}
	again, _, err := Resources(got, pol, f)
	if err != nil || jsonOf(t, again) != jsonOf(t, got) {
		t.Fatalf("hardened again: %v\n%s is not\n%s", err, jsonOf(t, again), jsonOf(t, got))
	}
}

// updateAbove reports where an update raises above policy or names what it was not
// requested.
func updateAbove(in, got *specs.LinuxResources, pol policy.Policy, f Facts) []string {
	j := &judge{in: &specs.Spec{}, pol: pol, f: f}
	lim := pol.Limits
	num := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	if got.Pids != nil {
		n := num(got.Pids.Limit)
		if in.Pids == nil || num(in.Pids.Limit) == 0 || lim.Pids > 0 && (n <= 0 || n > lim.Pids) {
			j.say("pids %d", n)
		}
	}
	if m := got.Memory; m != nil {
		bound := int64(lim.Memory)
		if bound > 0 && f.Host.MemTotal > 0 {
			bound = min(bound, f.Host.MemTotal/4*3)
		}
		switch {
		case in.Memory == nil || m.Limit != nil && num(in.Memory.Limit) == 0:
			j.say("memory from nowhere")
		case m.Limit == nil && m.Swap != nil:
			j.say("swap without a limit")
		case bound > 0 && m.Limit != nil && (*m.Limit <= 0 || *m.Limit > bound):
			j.say("memory %d", *m.Limit)
		case f.Host.Cgroup.Swap && bound > 0 && m.Limit != nil && (m.Swap == nil || *m.Swap < *m.Limit || *m.Swap > *m.Limit+int64(lim.Swap)):
			j.say("swap %d for %d", num(m.Swap), *m.Limit)
		}
		if m.KernelTCP != nil {
			j.say("sockets %d", *m.KernelTCP)
		}
		if m.DisableOOMKiller != nil && *m.DisableOOMKiller || num(m.Reservation) < 0 || bound > 0 && num(m.Reservation) > bound {
			j.say("memory %+v", *m)
		}
	}
	if c := got.CPU; c != nil {
		if in.CPU == nil || c.Quota != nil && num(in.CPU.Quota) == 0 && (in.CPU.Period == nil) {
			j.say("cpu from nowhere")
		}
		if lim.CPUs > 0 {
			if (c.Quota == nil) != (c.Period == nil) {
				j.say("quota without period, or the other way round")
			}
			if s := share(c); c.Quota != nil && (s <= 0 || s > lim.CPUs && *c.Quota > cpuQuotaMin) {
				j.say("%g processors", s)
			}
		}
		if c.RealtimeRuntime != nil || c.RealtimePeriod != nil || c.Burst != nil {
			j.say("real-time or burst")
		}
	}
	if b := got.BlockIO; b != nil {
		for _, l := range []struct {
			list  []specs.LinuxThrottleDevice
			bound uint64
		}{{b.ThrottleReadBpsDevice, uint64(lim.IORead)}, {b.ThrottleWriteBpsDevice, uint64(lim.IOWrite)}} {
			for _, d := range l.list {
				if l.bound > 0 && (d.Rate == 0 || d.Rate > l.bound) {
					j.say("rate %d", d.Rate)
				}
			}
		}
	}
	for k, v := range got.Unified {
		if in.Unified[k] != v {
			j.say("unified %s from nowhere", k)
		}
	}
	j.unified(got.Unified)
	if len(got.Devices)+len(got.HugepageLimits)+len(got.Rdma) > 0 || got.Network != nil {
		j.say("devices, huge pages, RDMA or network")
	}
	return j.found
}

func TestUpdateIsWithinPolicy(t *testing.T) {
	for seed := range uint64(20000) {
		g := newGen(seed)
		s := &specs.Spec{}
		for range 1 + g.IntN(20) {
			mutations[g.IntN(len(mutations))](g, s)
		}
		pol := g.policy()
		checkUpdate(t, resourcesOf(s), pol, g.facts(s, pol))
	}
}

func TestUpdate(t *testing.T) {
	const gib = 1 << 30
	i := func(v int64) *int64 { return &v }
	u := func(v uint64) *uint64 { return &v }
	type r = specs.LinuxResources
	for _, c := range []struct {
		name     string
		in, want r
	}{
		{"nothing", r{}, r{}},
		{"zeros, as Docker writes what is not meant", r{Memory: &specs.LinuxMemory{Limit: i(0), Swap: i(0), Reservation: i(0)}, CPU: &specs.LinuxCPU{Quota: i(0), Period: u(0)}, Pids: &specs.LinuxPids{Limit: i(0)}}, r{}},
		{"within policy", r{Memory: &specs.LinuxMemory{Limit: i(gib), Swap: i(gib)}, Pids: &specs.LinuxPids{Limit: i(5)}}, r{Memory: &specs.LinuxMemory{Limit: i(gib), Swap: i(gib)}, Pids: &specs.LinuxPids{Limit: i(5)}}},
		{"all the processes", r{Pids: &specs.LinuxPids{Limit: i(-1)}}, r{Pids: &specs.LinuxPids{Limit: i(1024)}}},
		{"too many processes", r{Pids: &specs.LinuxPids{Limit: i(1025)}}, r{Pids: &specs.LinuxPids{Limit: i(1024)}}},
		{"all the memory", r{Memory: &specs.LinuxMemory{Limit: i(-1), Swap: i(-1)}}, r{Memory: &specs.LinuxMemory{Limit: i(4 * gib), Swap: i(4 * gib)}}},
		{"memory without swap", r{Memory: &specs.LinuxMemory{Limit: i(gib)}}, r{Memory: &specs.LinuxMemory{Limit: i(gib), Swap: i(gib)}}},
		{"swap alone", r{Memory: &specs.LinuxMemory{Swap: i(3 * gib)}}, r{}},
		{"memory that is never reclaimed", r{Memory: &specs.LinuxMemory{Reservation: i(-1)}}, r{}},
		{"no OOM killer", r{Memory: &specs.LinuxMemory{DisableOOMKiller: new(true)}}, r{}},
		{"quota alone, for the usual period", r{CPU: &specs.LinuxCPU{Quota: i(200000)}}, r{CPU: &specs.LinuxCPU{Quota: i(200000), Period: u(100000)}}},
		{"period alone, by which a quota would grow", r{CPU: &specs.LinuxCPU{Period: u(1000)}}, r{}},
		{"quota for a short period", r{CPU: &specs.LinuxCPU{Quota: i(400000), Period: u(1000)}}, r{CPU: &specs.LinuxCPU{Quota: i(4000), Period: u(1000)}}},
		{"no quota", r{CPU: &specs.LinuxCPU{Quota: i(-1)}}, r{CPU: &specs.LinuxCPU{Quota: i(400000), Period: u(100000)}}},
		{"shares", r{CPU: &specs.LinuxCPU{Shares: u(5), Cpus: "0"}}, r{CPU: &specs.LinuxCPU{Shares: u(5), Cpus: "0"}}},
		{"idle no longer", r{CPU: &specs.LinuxCPU{Idle: i(0)}}, r{CPU: &specs.LinuxCPU{Idle: i(0)}}},
		{"devices", r{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}}, r{}},
		{"no throttle", r{BlockIO: &specs.LinuxBlockIO{ThrottleWriteBpsDevice: []specs.LinuxThrottleDevice{{}}}}, r{BlockIO: &specs.LinuxBlockIO{ThrottleWriteBpsDevice: []specs.LinuxThrottleDevice{{Rate: 200 << 20}}}}},
		{"files of the group", r{Unified: map[string]string{"memory.max": "max", "pids.max": "5", "cgroup.kill": "1"}}, r{Unified: map[string]string{"pids.max": "5"}}},
	} {
		got, _, err := Resources(&c.in, policy.Default(), Facts{Host: testHost()})
		if err != nil || jsonOf(t, got) != jsonOf(t, c.want) {
			t.Errorf("%s: %v\ngot  %s\nwant %s", c.name, err, jsonOf(t, got), jsonOf(t, c.want))
		}
	}
	if got, _, err := Resources(nil, policy.Default(), Facts{}); err != nil || jsonOf(t, got) != "{}" {
		t.Errorf("no update: %s, %v", jsonOf(t, got), err)
	}
}

// `docker update --pids-limit -1 -m 64m --memory-swap 128m --cpus 2` and
// `docker update --cpu-shares 100`, as Docker writes them.
func TestDockerUpdate(t *testing.T) {
	f := Facts{Host: hostfacts.Facts{Cgroup: hostfacts.Cgroup{Pids: true, Memory: true, Swap: true, CPU: true}, MemTotal: 1 << 36}}
	for name, want := range map[string]string{
		"docker-update":   `{"memory":{"limit":67108864,"swap":67108864},"cpu":{"shares":0,"quota":200000,"period":100000},"pids":{"limit":1024},"blockIO":{"weight":0}}`,
		"docker-2-update": `{"cpu":{"shares":100},"blockIO":{"weight":0}}`,
	} {
		r := new(specs.LinuxResources)
		readFixture(t, name, r)
		got, _, err := Resources(r, policy.Default(), f)
		if err != nil || jsonOf(t, got) != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, jsonOf(t, got), want)
		}
	}
}
