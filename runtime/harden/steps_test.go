package harden

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

func TestShape(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*specs.Spec)
		says   string
	}{
		{"no process", func(s *specs.Spec) { s.Process = nil }, "has no process"},
		{"no root", func(s *specs.Spec) { s.Root = nil }, "has no root"},
		{"no root path", func(s *specs.Spec) { s.Root.Path = "" }, "has no root"},
		{"no args", func(s *specs.Spec) { s.Process.Args = nil }, "has no process.args"},
		{"long hostname", func(s *specs.Spec) { s.Hostname = strings.Repeat("x", 65) }, "64 characters"},
		{"long domainname", func(s *specs.Spec) { s.Domainname = strings.Repeat("x", 65) }, "64 characters"},
		{"root control group", func(s *specs.Spec) { s.Linux.CgroupsPath = "/" }, "root group"},
		{"root control group by another name", func(s *specs.Spec) { s.Linux.CgroupsPath = "//." }, "root group"},
		{"another's control group", func(s *specs.Spec) { s.Linux.CgroupsPath = "/docker/../system.slice/sshd.service" }, "leaves its place"},
		{"another's slice", func(s *specs.Spec) { s.Linux.CgroupsPath = "../system.slice:docker:x" }, "leaves its place"},
	} {
		s := with(c.change)
		contain(t, c.name, refused(t, s, policy.Default(), testFacts(s)), c.says)
	}
	for _, path := range []string{"", "/docker/abc", "docker/abc", "system.slice:docker:abc", "/kubepods/burstable/pod1/abc", "/a..b"} {
		s := with(func(s *specs.Spec) { s.Linux.CgroupsPath = path })
		res, _ := jail(t, s)
		if res.Spec.Linux.CgroupsPath != path {
			t.Errorf("%q became %q", path, res.Spec.Linux.CgroupsPath)
		}
	}
	// A spec without any linux section is still a jail.
	s := with(func(s *specs.Spec) { s.Linux = nil })
	res, rep := jail(t, s)
	if len(res.Spec.Linux.Namespaces) != 8 || len(find(rep, report.Denied, "linux.namespaces*")) != 6 {
		t.Errorf("%s: %v", jsonOf(t, res.Spec.Linux.Namespaces), rep.Of(report.Denied))
	}
}

// All reasons come at once.
func TestAllReasonsAtOnce(t *testing.T) {
	s := mount(specs.Mount{Destination: "/", Type: "tmpfs"}, specs.Mount{Destination: "/x", Type: "ext4", Source: "/dev/sda"}, specs.Mount{Destination: "/y", Type: "bind", Source: "/etc"})
	s.Process.Cwd = "x"
	contain(t, "refusal", refused(t, s, policy.Default(), testFacts(s)), "root itself", `"ext4" is not for jails`, "the host's configuration", "process.cwd")
}

// TestHostname: a jail with a UTS namespace of its own has a name of its own, and never the host's.
func TestHostname(t *testing.T) {
	joined := map[specs.LinuxNamespaceType]Join{"uts": {Jail: "seven", UserNS: "/proc/7/ns/user"}}
	for _, c := range []struct {
		name, id, given string
		uts             *specs.LinuxNamespace
		want            string
	}{
		{"no name", id, "", &specs.LinuxNamespace{Type: "uts"}, id},
		{"no name and no namespace", id, "", nil, id},
		{"the host's namespace by path", id, "", &specs.LinuxNamespace{Type: "uts", Path: "/proc/1/ns/uts"}, id},
		{"a name", id, "own", &specs.LinuxNamespace{Type: "uts"}, "own"},
		{"another jail's namespace", id, "", &specs.LinuxNamespace{Type: "uts", Path: "/proc/7/ns/uts"}, ""},
		{"a long id", strings.Repeat("b", 63) + "_" + strings.Repeat("c", 90), "", nil, strings.Repeat("b", 63)},
		{"an id of other characters", "_a_b+c.d-", "", nil, "a-b-c.d"},
		{"an id of nothing else", "__", "", nil, "agentjail"},
	} {
		s := with(func(s *specs.Spec) {
			s.Hostname = c.given
			s.Linux.Namespaces = []specs.LinuxNamespace{{Type: "pid"}, {Type: "mount"}, {Type: "network"}, {Type: "ipc"}}
			if c.uts != nil {
				s.Linux.Namespaces = append(s.Linux.Namespaces, *c.uts)
			}
		})
		f := testFacts(s)
		if f.ID = c.id; c.uts != nil && strings.Contains(c.uts.Path, "/7/") {
			f.Joins = joined
		}
		res, rep, err := Harden(s, policy.Default(), f)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := res.Spec.Hostname; got != c.want || len(got) > maxHostname {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		told := slices.ContainsFunc(rep.Changes, func(c report.Change) bool { return c.Field == "hostname" })
		if want := c.given == "" && c.want != ""; told != want {
			t.Errorf("%s: reported: %v", c.name, told)
		}
	}
}

func TestNamespaces(t *testing.T) {
	type ns = specs.LinuxNamespace
	seven := map[specs.LinuxNamespaceType]Join{}
	for _, k := range []specs.LinuxNamespaceType{"pid", "network", "ipc", "uts", "user", "mount", "cgroup", "time"} {
		seven[k] = Join{Jail: "seven", UserNS: "/proc/7/ns/user", Mode: policy.NetworkNone}
	}
	mixed := map[specs.LinuxNamespaceType]Join{"network": seven["network"], "ipc": {Jail: "eight", UserNS: "/proc/8/ns/user"}}
	for _, c := range []struct {
		name  string
		in    []ns
		joins map[specs.LinuxNamespaceType]Join
		want  map[specs.LinuxNamespaceType]string // joined ones
		lost  []string
		says  string
	}{
		{"all but those that engines leave out", []ns{{Type: "pid"}, {Type: "mount"}, {Type: "network"}, {Type: "ipc"}, {Type: "uts"}, {Type: "cgroup"}}, nil, nil, nil, ""},
		{"none", nil, nil, nil, []string{"cgroup", "ipc", "mount", "network", "pid", "uts"}, ""},
		{"host's by path", []ns{{Type: "pid", Path: "/proc/1/ns/pid"}, {Type: "mount"}, {Type: "network", Path: "/run/netns/x"}, {Type: "ipc"}, {Type: "uts"}, {Type: "cgroup"}}, nil, nil, []string{"network", "pid"}, ""},
		{
			"another jail's network",
			[]ns{{Type: "pid"}, {Type: "mount"}, {Type: "network", Path: "/proc/7/ns/net"}, {Type: "ipc"}, {Type: "uts"}, {Type: "cgroup"}},
			seven,
			map[specs.LinuxNamespaceType]string{"network": "/proc/7/ns/net", "user": "/proc/7/ns/user"},
			nil, "",
		},
		{
			"a pod",
			[]ns{{Type: "pid", Path: "/proc/7/ns/pid"}, {Type: "mount"}, {Type: "network", Path: "/proc/7/ns/net"}, {Type: "ipc", Path: "/proc/7/ns/ipc"}, {Type: "uts", Path: "/proc/7/ns/uts"}, {Type: "user", Path: "/proc/9/ns/user"}, {Type: "cgroup"}},
			seven,
			map[specs.LinuxNamespaceType]string{"pid": "/proc/7/ns/pid", "network": "/proc/7/ns/net", "ipc": "/proc/7/ns/ipc", "uts": "/proc/7/ns/uts", "user": "/proc/7/ns/user"},
			nil, "",
		},
		{
			"another jail's mounts and control group",
			[]ns{{Type: "pid"}, {Type: "mount", Path: "/proc/7/ns/mnt"}, {Type: "network"}, {Type: "ipc"}, {Type: "uts"}, {Type: "cgroup", Path: "/proc/7/ns/cgroup"}, {Type: "time", Path: "/proc/7/ns/time"}},
			seven,
			nil,
			[]string{"cgroup", "mount", "time"},
			"",
		},
		{"two jails'", []ns{{Type: "network", Path: "/proc/7/ns/net"}, {Type: "ipc", Path: "/proc/8/ns/ipc"}}, mixed, nil, nil, "two jails"},
		{"twice", []ns{{Type: "pid"}, {Type: "pid", Path: "/proc/1/ns/pid"}}, nil, nil, nil, "lists pid twice"},
		{"unknown", []ns{{Type: "net"}}, nil, nil, nil, `unknown type "net"`},
		{"no type", []ns{{}}, nil, nil, nil, `unknown type ""`},
	} {
		s := with(func(s *specs.Spec) { s.Linux.Namespaces = c.in })
		f := testFacts(s)
		f.Joins = c.joins
		if c.says != "" {
			contain(t, c.name, refused(t, s, policy.Default(), f), c.says)
			continue
		}
		res, rep, err := Harden(s, policy.Default(), f)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		joined := map[specs.LinuxNamespaceType]string{}
		for _, n := range res.Spec.Linux.Namespaces {
			if n.Path != "" {
				joined[n.Type] = n.Path
			}
		}
		if len(res.Spec.Linux.Namespaces) != 8 || fmt.Sprint(joined) != fmt.Sprint(c.want) && len(joined)+len(c.want) > 0 {
			t.Errorf("%s: %s", c.name, jsonOf(t, res.Spec.Linux.Namespaces))
		}
		if d := res.Plan.Network; d.Mode != policy.NetworkNone || (d.Namespace == network.Own) != (joined["network"] == "") {
			t.Errorf("%s: network: %+v", c.name, d)
		}
		var lost []string
		for _, l := range find(rep, report.Denied, "linux.namespaces*") {
			lost = append(lost, strings.TrimSuffix(strings.TrimPrefix(l.Field, "linux.namespaces["), "]"))
		}
		slices.Sort(lost)
		if !slices.Equal(lost, c.lost) {
			t.Errorf("%s: lost %v, not %v", c.name, lost, c.lost)
		}
	}
}

// Whose network a jail is in: the engine's only where policy reports it, and one
// without network does not come by it through a jail that has it.
func TestEngineNetwork(t *testing.T) {
	const cni, seven = "/run/netns/cni-x", "/proc/7/ns/net"
	const none, engine = policy.NetworkNone, policy.NetworkEngine
	pinned := Join{Pinned: true}
	open := Join{Jail: "seven", UserNS: "/proc/7/ns/user", Mode: engine}
	sealed := Join{Jail: "seven", UserNS: "/proc/7/ns/user", Mode: none}
	for _, c := range []struct {
		name, mode, path string
		join             Join
		want             string // the path that is left
		got              network.Decision
		lost             bool
		shares           bool // seven's user namespace
	}{
		{"fresh", none, "", Join{}, "", network.Decision{Mode: none, Namespace: network.Own}, false, false},
		{"fresh for the engine", engine, "", Join{}, "", network.Decision{Mode: engine, Namespace: network.Own}, false, false},
		{"made by the engine, not wanted", none, cni, pinned, "", network.Decision{Mode: none, Namespace: network.Own}, false, false},
		{"made by the engine", engine, cni, pinned, cni, network.Decision{Mode: engine, Namespace: network.Given}, false, false},
		{"of a process that is no jail", engine, "/proc/9/ns/net", Join{}, "", network.Decision{Mode: engine, Namespace: network.Own}, true, false},
		{"a sealed jail's", none, seven, sealed, seven, network.Decision{Mode: none, Namespace: network.Joined}, false, true},
		{"a sealed jail's, by one that may have more", engine, seven, sealed, seven, network.Decision{Mode: none, Namespace: network.Joined}, false, true},
		{"a jail's with the engine's", engine, seven, open, seven, network.Decision{Mode: engine, Namespace: network.Given}, false, true},
		{"a jail's with the engine's, by one that may not", none, seven, open, "", network.Decision{Mode: none, Namespace: network.Own}, true, false},
	} {
		s := with(func(s *specs.Spec) {
			for i, n := range s.Linux.Namespaces {
				if n.Type == "network" {
					s.Linux.Namespaces[i].Path = c.path
				}
			}
		})
		f := testFacts(s)
		if c.join.Jail != "" || c.join.Mode != "" || c.join.Pinned {
			f.Joins = map[specs.LinuxNamespaceType]Join{"network": c.join}
		}
		pol := policy.Default()
		pol.Network.Mode = c.mode
		res, rep, err := Harden(s, pol, f)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := map[specs.LinuxNamespaceType]string{}
		for _, n := range res.Spec.Linux.Namespaces {
			got[n.Type] = n.Path
		}
		if got["network"] != c.want || res.Plan.Network != c.got || (got["user"] != "") != c.shares {
			t.Errorf("%s: %v, %+v", c.name, got, res.Plan.Network)
		}
		if lost := find(rep, report.Denied, "linux.namespaces[network]"); (len(lost) > 0) != c.lost {
			t.Errorf("%s: lost %v", c.name, lost)
		}
	}
}

// The profile net that names nothing gives no network, and the report reports how the engine's is had.
func TestNothingNamed(t *testing.T) {
	for profile, says := range map[string]int{"net": 1, "": 0} {
		pol := policy.Default()
		pol.Origin = &policy.Origin{Name: profile}
		s := small()
		res, rep, err := Harden(s, pol, testFacts(s))
		if err != nil || res.Plan.Network.Mode != policy.NetworkNone {
			t.Fatalf("%v, %+v", err, res)
		}
		n := 0
		for _, c := range find(rep, report.Set, "network") {
			if c.Why == policy.NothingNamed {
				n++
			}
		}
		if n != says {
			t.Errorf("profile %q: %v", profile, rep.Changes)
		}
	}
}

// A network mode that is none of this version's makes no jail: that of the policy,
// and that of a jail to join.
func TestUnknownNetworkMode(t *testing.T) {
	pol := policy.Default()
	pol.Network.Mode = "later"
	s := small()
	contain(t, "policy's", refused(t, s, pol, testFacts(s)), `no network mode "later"`)
	pol.Network.Mode = policy.NetworkEngine
	s = with(func(s *specs.Spec) { s.Linux.Namespaces[2].Path = "/proc/7/ns/net" })
	f := testFacts(s)
	f.Joins = map[specs.LinuxNamespaceType]Join{"network": {Jail: "seven", UserNS: "/proc/7/ns/user", Mode: "later"}}
	contain(t, "a jail's", refused(t, s, pol, f), `no network mode "later"`)
}

// A kernel without time namespaces: the report reports it, and nothing stumbles.
func TestNoTimeNamespace(t *testing.T) {
	s := with(func(s *specs.Spec) {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: "time"})
		s.Linux.TimeOffsets = map[string]specs.LinuxTimeOffset{"boottime": {Secs: 5}}
	})
	f := testFacts(s)
	f.Host.TimeNS = false
	res, rep, err := Harden(s, policy.Default(), f)
	if err != nil || len(res.Spec.Linux.Namespaces) != 7 || res.Spec.Linux.TimeOffsets != nil || len(find(rep, report.Missing, "linux.namespaces[time]")) != 1 {
		t.Errorf("%v %s %v", err, jsonOf(t, res.Spec.Linux), rep.Of(report.Missing))
	}
	// Without the fact that the control groups are of version 2, the absence of
	// a cgroup namespace is the engine's habit.
	f.Host.Cgroup.V2 = false
	if _, rep, _ := Harden(s, policy.Default(), f); len(find(rep, report.Denied, "linux.namespaces[cgroup]")) != 0 {
		t.Errorf("%v", rep.Of(report.Denied))
	}
}

func TestIDs(t *testing.T) {
	s := small()
	f := testFacts(s)
	f.IDs = idmap.Map{}
	contain(t, "no ids", refused(t, s, policy.Default(), f), "no host ids")
	f.IDs = idmap.ForBlock(policy.Default().Userns.Pool, true, 0)
	res, _, err := Harden(s, policy.Default(), f)
	if err != nil || res.Spec.Linux.UIDMappings[0].HostID != 65534 || len(res.Spec.Linux.UIDMappings) != 2 {
		t.Errorf("%v: %s", err, jsonOf(t, res))
	}
	// An engine's mapping is not exclusive, and the report reports it.
	given := []specs.LinuxIDMapping{{HostID: 100000, Size: 1001}}
	m, err := idmap.ForEngine(policy.Default().Userns.Pool, given, given)
	if err != nil {
		t.Fatal(err)
	}
	f.IDs = m
	res, rep, err := Harden(s, policy.Default(), f)
	if err != nil || !res.Plan.AlreadyMapped || len(find(rep, report.Missing, "linux.uidMappings")) != 1 {
		t.Errorf("%v: %v", err, rep.Changes)
	}
	s.Process.User.UID = 1001
	contain(t, "an id that the engine's mapping does not have", refused(t, s, policy.Default(), f), "process.user.uid: refused: 1001 is none of the jail's ids (0 to 1000) (remedy: another id")
}

func TestProcess(t *testing.T) {
	s := with(func(s *specs.Spec) {
		s.Process.User.AdditionalGids = []uint32{5, 65535}
		s.Process.Rlimits = []specs.POSIXRlimit{
			{Type: "RLIMIT_NOFILE", Hard: 1 << 30, Soft: 1 << 29}, {Type: "RLIMIT_CORE", Hard: 1<<64 - 1, Soft: 5}, {Type: "RLIMIT_STACK", Hard: 100, Soft: 200}, {Type: "RLIMIT_NPROC", Hard: 7, Soft: 7},
		}
	})
	res, _ := jail(t, s)
	p := res.Spec.Process
	if !slices.Equal(p.User.AdditionalGids, []uint32{5, 65535}) {
		t.Errorf("groups %v", p.User.AdditionalGids)
	}
	got := map[string][2]uint64{}
	for _, r := range p.Rlimits {
		got[r.Type] = [2]uint64{r.Hard, r.Soft}
	}
	want := map[string][2]uint64{
		"RLIMIT_NOFILE": {16384, 16384}, "RLIMIT_CORE": {1, 1}, "RLIMIT_STACK": {100, 100}, "RLIMIT_NPROC": {7, 7}, "RLIMIT_MEMLOCK": {256 << 10, 256 << 10},
		"RLIMIT_MSGQUEUE": {0, 0}, "RLIMIT_NICE": {0, 0}, "RLIMIT_RTPRIO": {0, 0}, "RLIMIT_SIGPENDING": {4096, 4096},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("limits %v, not %v", got, want)
	}
	// An engine's own 0, which is what most give, is no switch for a pipe.
	res, _ = jail(t, with(func(s *specs.Spec) { s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_CORE"}} }))
	if r := res.Spec.Process.Rlimits[0]; r.Hard != 1 || r.Soft != 1 {
		t.Errorf("%+v", r)
	}
	// Below what the engine itself may have: a child's cannot be raised.
	f := testFacts(s)
	f.Host.HardLimits["RLIMIT_NOFILE"], f.Host.HardLimits["RLIMIT_SIGPENDING"] = 1000, 10
	f.Host.HardLimits["RLIMIT_CORE"] = 0
	res, rep, err := Harden(s, policy.Default(), f)
	if err != nil {
		t.Fatal(err)
	}
	if len(find(rep, report.Missing, "process.rlimits[RLIMIT_CORE]")) != 1 {
		t.Errorf("that core handlers run is not reported: %v", rep.Changes)
	}
	for _, r := range res.Spec.Process.Rlimits {
		if r.Type == "RLIMIT_NOFILE" && r.Hard != 1000 || r.Type == "RLIMIT_SIGPENDING" && r.Hard != 10 {
			t.Errorf("%+v", r)
		}
	}
}

func TestPriorities(t *testing.T) {
	sched := func(p specs.LinuxSchedulerPolicy, nice int32) *specs.Scheduler {
		return &specs.Scheduler{Policy: p, Nice: nice}
	}
	io := func(c specs.IOPriorityClass, n int) *specs.LinuxIOPriority {
		return &specs.LinuxIOPriority{Class: c, Priority: n}
	}
	for _, c := range []struct {
		name   string
		change func(*specs.Process)
		lost   string // field, or "" where it stays
	}{
		{"spared by the OOM killer", func(p *specs.Process) { p.OOMScoreAdj = new(-1) }, "process.oomScoreAdj"},
		{"killed first", func(p *specs.Process) { p.OOMScoreAdj = new(1000) }, ""},
		{"nice", func(p *specs.Process) { p.Scheduler = sched(specs.SchedOther, 19) }, ""},
		{"batch", func(p *specs.Process) { p.Scheduler = sched(specs.SchedBatch, 0) }, ""},
		{"idle", func(p *specs.Process) { p.Scheduler = sched(specs.SchedIdle, 0) }, ""},
		{"not nice", func(p *specs.Process) { p.Scheduler = sched(specs.SchedOther, -1) }, "process.scheduler"},
		{"first in, first out", func(p *specs.Process) { p.Scheduler = sched(specs.SchedFIFO, 0) }, "process.scheduler"},
		{"round robin", func(p *specs.Process) { p.Scheduler = sched(specs.SchedRR, 0) }, "process.scheduler"},
		{"deadline", func(p *specs.Process) { p.Scheduler = sched(specs.SchedDeadline, 0) }, "process.scheduler"},
		{"unknown policy", func(p *specs.Process) { p.Scheduler = sched("SCHED_EXT", 0) }, "process.scheduler"},
		{"flags", func(p *specs.Process) {
			p.Scheduler = sched(specs.SchedOther, 0)
			p.Scheduler.Flags = []specs.LinuxSchedulerFlag{specs.SchedFlagUtilClampMin}
		}, "process.scheduler"},
		{"I/O first", func(p *specs.Process) { p.IOPriority = io(specs.IOPRIO_CLASS_RT, 7) }, "process.ioPriority"},
		{"I/O before others", func(p *specs.Process) { p.IOPriority = io(specs.IOPRIO_CLASS_BE, 3) }, "process.ioPriority"},
		{"I/O as others", func(p *specs.Process) { p.IOPriority = io(specs.IOPRIO_CLASS_BE, 4) }, ""},
		{"I/O last", func(p *specs.Process) { p.IOPriority = io(specs.IOPRIO_CLASS_IDLE, 0) }, ""},
		{"I/O unknown", func(p *specs.Process) { p.IOPriority = io("x", 7) }, "process.ioPriority"},
	} {
		s := with(func(s *specs.Spec) { c.change(s.Process) })
		res, rep := jail(t, s)
		fields := find(rep, report.Denied, "process.*")
		if c.lost == "" {
			if len(fields) > 0 || !reflect.DeepEqual(res.Spec.Process.Scheduler, s.Process.Scheduler) || !reflect.DeepEqual(res.Spec.Process.IOPriority, s.Process.IOPriority) ||
				s.Process.OOMScoreAdj != nil && *res.Spec.Process.OOMScoreAdj != *s.Process.OOMScoreAdj {
				t.Errorf("%s: lost %v, %s", c.name, fields, jsonOf(t, res.Spec.Process))
			}
		} else if len(fields) != 1 || fields[0].Field != c.lost {
			t.Errorf("%s: lost %v", c.name, fields)
		}
	}
	// A silent spec would inherit what the engine protects itself with.
	s := small()
	for adj, want := range map[int]int{-999: 900, 0: 900, 300: 900, 950: 950} {
		f := testFacts(s)
		f.Host.OOMScoreAdj = adj
		res, _, err := Harden(s, policy.Default(), f)
		if err != nil {
			t.Fatal(err)
		}
		if got := *res.Spec.Process.OOMScoreAdj; got != want {
			t.Errorf("an engine with %d gives its jail %d, not %d", adj, got, want)
		}
	}
}

func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		name string
		in   *specs.LinuxCapabilities
		kind report.Kind
		text string
	}{
		{"none set, which leaves the delegate's own", nil, report.Set, ""},
		{"empty", &specs.LinuxCapabilities{}, "", ""},
		{"Docker's default", &specs.LinuxCapabilities{Bounding: defaultCaps, Effective: defaultCaps, Permitted: defaultCaps}, report.Lowered, "14 default ones"},
		{"one more", &specs.LinuxCapabilities{Bounding: append([]string{"CAP_SYS_ADMIN"}, defaultCaps...)}, report.Denied, "CAP_SYS_ADMIN"},
		{"one, ambient only", &specs.LinuxCapabilities{Ambient: []string{"CAP_BPF"}}, report.Denied, "CAP_BPF"},
		{"many", &specs.LinuxCapabilities{Inheritable: []string{"A", "B", "C", "D", "E", "F", "G"}}, report.Denied, "A, B, C, D, E and 2 more"},
		{"unknown", &specs.LinuxCapabilities{Permitted: []string{"ALL"}}, report.Denied, "ALL"},
	} {
		s := with(func(s *specs.Spec) { s.Process.Capabilities = c.in })
		res, rep := jail(t, s)
		if got := res.Spec.Process.Capabilities; got == nil || !reflect.DeepEqual(*got, specs.LinuxCapabilities{}) || !strings.Contains(jsonOf(t, res.Spec), `"capabilities":{}`) {
			t.Errorf("%s: %+v", c.name, got)
		}
		var changes []report.Change
		for _, ch := range rep.Changes {
			if ch.Field == "process.capabilities" {
				changes = append(changes, ch)
			}
		}
		if c.kind == "" {
			if len(changes) > 0 {
				t.Errorf("%s: %v", c.name, changes)
			}
		} else if len(changes) != 1 || changes[0].Kind != c.kind || changes[0].Was != c.text {
			t.Errorf("%s: %v", c.name, changes)
		}
	}
}

func TestLSM(t *testing.T) {
	const container, label = "system_u:system_r:container_t:s0:c1,c2", "system_u:object_r:container_file_t:s0:c1,c2"
	const own, ownFile = "system_u:system_r:container_t:s0:c1,c4", "system_u:object_r:container_file_t:s0:c1,c4" // block 7's
	for _, c := range []struct {
		name                string
		apparmor, selinux   bool
		known               bool // the policy names labels for containers
		profile, label, mnt string
		wantProfile, want   string
		wantMnt             string
		lost, missing       string
		says                string
	}{
		{name: "AppArmor, silent", apparmor: true, wantProfile: "agentjail-default"},
		{name: "AppArmor, Docker's", apparmor: true, profile: "docker-default", wantProfile: "agentjail-default"},
		{name: "AppArmor, Podman's", apparmor: true, profile: "containers-default-0.62", wantProfile: "agentjail-default"},
		{name: "AppArmor, unconfined", apparmor: true, profile: "unconfined", wantProfile: "agentjail-default", lost: "process.apparmorProfile"},
		{name: "AppArmor, one for this container", apparmor: true, profile: "tight", wantProfile: "agentjail-default//&tight"},
		{name: "AppArmor, ours", apparmor: true, profile: "agentjail-default", wantProfile: "agentjail-default"},
		{name: "AppArmor, ours and another", apparmor: true, profile: "tight//&agentjail-default", wantProfile: "tight//&agentjail-default"},
		{name: "AppArmor, a name like ours", apparmor: true, profile: "agentjail-default2", wantProfile: "agentjail-default//&agentjail-default2"},
		{name: "no LSM", profile: "docker-default", missing: "process.apparmorProfile"},
		{name: "no LSM, a label", label: container, mnt: label, missing: "process.apparmorProfile"},
		{name: "SELinux", selinux: true, label: container, mnt: label, want: container, wantMnt: label},
		{name: "SELinux, no label, no policy for containers", selinux: true, missing: "process.selinuxLabel"},
		{name: "SELinux, disabled for this one", selinux: true, known: true, want: own, wantMnt: ownFile},
		{name: "SELinux, disabled, files of an engine's", selinux: true, known: true, mnt: "system_u:object_r:container_file_t:s0:c1022,c1023", want: own, wantMnt: ownFile},
		{name: "SELinux, a type that confines nothing", selinux: true, label: "system_u:system_r:spc_t:s0:c1,c2", want: container, wantMnt: label, lost: "process.selinuxLabel"},
		{name: "SELinux, unconfined", selinux: true, label: "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023", mnt: label, want: own, wantMnt: ownFile, lost: "process.selinuxLabel"},
		{name: "SELinux, every category", selinux: true, label: "system_u:system_r:container_t:s0:c0.c1023", mnt: label, want: own, wantMnt: ownFile, lost: "process.selinuxLabel"},
		{name: "SELinux, a range", selinux: true, label: "system_u:system_r:container_t:s0-s0:c1,c2", mnt: label, want: own, wantMnt: ownFile, lost: "process.selinuxLabel"},
		{name: "SELinux, no category", selinux: true, label: "system_u:system_r:container_t:s0", mnt: "system_u:object_r:container_file_t:s0", want: own, wantMnt: ownFile, lost: "process.selinuxLabel"},
		{name: "SELinux, files without a label", selinux: true, label: container, want: container, wantMnt: label},
		{name: "SELinux, everybody's files", selinux: true, label: container, mnt: "system_u:object_r:container_file_t:s0", want: container, wantMnt: label},
		{name: "SELinux, no label at all", selinux: true, label: "container_t", says: "not of the form"},
	} {
		s := with(func(s *specs.Spec) {
			s.Process.ApparmorProfile, s.Process.SelinuxLabel, s.Linux.MountLabel = c.profile, c.label, c.mnt
		})
		f := testFacts(s)
		f.Host.AppArmor, f.Host.SELinux = c.apparmor, c.selinux
		if c.known {
			f.Host.ProcessLabel, f.Host.FileLabel = processLabel, fileLabel
		}
		if c.says != "" {
			contain(t, c.name, refused(t, s, policy.Default(), f), c.says)
			continue
		}
		res, rep, err := Harden(s, policy.Default(), f)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		p := res.Spec.Process
		if p.ApparmorProfile != c.wantProfile || p.SelinuxLabel != c.want || res.Spec.Linux.MountLabel != c.wantMnt {
			t.Errorf("%s: %q %q %q", c.name, p.ApparmorProfile, p.SelinuxLabel, res.Spec.Linux.MountLabel)
		}
		for kind, field := range map[report.Kind]string{report.Denied: c.lost, report.Missing: c.missing} {
			if field != "" && len(find(rep, kind, field)) == 0 || field == "" && len(find(rep, kind, "process.*")) > 0 {
				t.Errorf("%s: %s %v", c.name, kind, rep.Of(kind))
			}
		}
		pol := policy.Default()
		pol.AppArmor.Required = true
		if _, _, err := Harden(s, pol, f); (err != nil) != (!c.apparmor && c.want == "") {
			t.Errorf("%s, with a policy that requires one: %v", c.name, err)
		}
	}
	s := small()
	f := testFacts(s)
	f.Host.AppArmor, f.NoAppArmor = false, "the profile cannot be loaded: no parser"
	_, rep, _ := Harden(s, policy.Default(), f)
	contain(t, "a profile that cannot be loaded", fmt.Sprint(rep.Of(report.Missing)), "no parser")
	// Then the engine's own profile is better than none.
	for was, want := range map[string]string{"": "", "unconfined": "", "docker-default": "docker-default", "tight": "tight"} {
		s := with(func(s *specs.Spec) { s.Process.ApparmorProfile = was })
		f := testFacts(s)
		f.Host.AppArmor, f.NoAppArmor = false, "the profile cannot be loaded: no parser"
		res, _, err := Harden(s, policy.Default(), f)
		if err != nil || res.Spec.Process.ApparmorProfile != want {
			t.Errorf("%q where ours cannot be loaded: %q, %v", was, res.Spec.Process.ApparmorProfile, err)
		}
	}
}

// TestSeccompGiven: a filter that was made before is what the jail gets, and that
// there is none refuses the bundle along with every other reason.
func TestSeccompGiven(t *testing.T) {
	f := testFacts(small())
	f.Filter = &Filter{Section: &specs.LinuxSeccomp{DefaultAction: specs.ActTrap}, Notes: []string{"a note"}}
	s := with(func(s *specs.Spec) { s.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: specs.ActAllow} })
	res, rep, err := Harden(s, policy.Default(), f)
	if err != nil || res.Spec.Linux.Seccomp != f.Filter.Section {
		t.Fatalf("%v, %v", res, err)
	}
	if got := find(rep, report.Lowered, "linux.seccomp"); len(got) != 1 || got[0].Why != "a note" {
		t.Errorf("notes: %v", got)
	}
	f.Filter = &Filter{Err: errors.New("no compiler")}
	s.Process.Cwd = "not absolute"
	contain(t, "no filter", refused(t, s, policy.Default(), f), "no compiler", "process.cwd")
}

func TestSeccomp(t *testing.T) {
	// Without a filter, and with one that allows everything, it is ours.
	res, rep := jail(t, small())
	ours := jsonOf(t, res.Spec.Linux.Seccomp)
	if len(find(rep, report.Denied, "linux.seccomp")) != 1 {
		t.Errorf("%v", rep.Of(report.Denied))
	}
	for name, in := range map[string]*specs.LinuxSeccomp{
		"nothing in it": {},
		"allows all":    {DefaultAction: specs.ActAllow},
		"logs all":      {DefaultAction: specs.ActLog},
	} {
		res, _ := jail(t, with(func(s *specs.Spec) { s.Linux.Seccomp = in }))
		if got := jsonOf(t, res.Spec.Linux.Seccomp); got != ours {
			t.Errorf("%s: %s", name, got)
		}
	}
	// A tighter one stays tighter.
	tight := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, Architectures: []specs.Arch{specs.ArchX86_64, specs.ArchX86}, Syscalls: []specs.LinuxSyscall{{Names: []string{"read", "write", "io_uring_setup", "bpf"}, Action: specs.ActAllow}}}
	res, _ = jail(t, with(func(s *specs.Spec) { s.Linux.Seccomp = tight }))
	got := allowed(res.Spec.Linux.Seccomp)
	if len(got) != 2 || !got["read"] || !got["write"] || len(res.Spec.Linux.Seccomp.Architectures) != 1 {
		t.Errorf("%s", jsonOf(t, res.Spec.Linux.Seccomp))
	}
	pol := policy.Default()
	pol.Seccomp.OnViolation = "kill"
	res, _, err := Harden(small(), pol, testFacts(small()))
	if err != nil || res.Spec.Linux.Seccomp.DefaultAction != specs.ActKillProcess {
		t.Errorf("%v: a violation is answered with %v", err, res.Spec.Linux.Seccomp.DefaultAction)
	}
	pol.Seccomp.Profile = "nonsense"
	contain(t, "a profile that is not there", refused(t, small(), pol, testFacts(small())), "seccomp", "nonsense")
	f := testFacts(small())
	f.Host.Arch = "mips"
	contain(t, "an architecture without a profile", refused(t, small(), policy.Default(), f), "mips")
}

func TestDevices(t *testing.T) {
	fuse := specs.LinuxDevice{Path: "/dev/fuse", Type: "c", Major: 10, Minor: 229}
	rule := func(access string) specs.LinuxDeviceCgroup {
		return specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: new(int64(10)), Minor: new(int64(229)), Access: access}
	}
	pol := policy.Default()
	pol.Devices.Allow = []string{"/dev/fuse", "/dev/null"}
	nodes := map[string]Node{"/dev/fuse": {"c", 10, 229}, "/dev/null": {"c", 1, 3}}
	for _, c := range []struct {
		name  string
		dev   specs.LinuxDevice
		rules []specs.LinuxDeviceCgroup
		nodes map[string]Node
		pol   policy.Policy
		want  string // access, or "" where it is not given
	}{
		{"listed", fuse, []specs.LinuxDeviceCgroup{rule("rwm")}, nodes, pol, "rw"},
		{"listed, to be read", fuse, []specs.LinuxDeviceCgroup{rule("r")}, nodes, pol, "r"},
		{"listed, no rule", fuse, nil, nodes, pol, ""},
		{"listed, denied later", fuse, []specs.LinuxDeviceCgroup{rule("rwm"), {Allow: false, Access: "w"}}, nodes, pol, "r"},
		{"listed, all allowed", fuse, []specs.LinuxDeviceCgroup{{Allow: true, Type: "a", Access: "rwm"}}, nodes, pol, "rw"},
		{"listed, unbuffered", specs.LinuxDevice{Path: "/dev/fuse", Type: "u", Major: 10, Minor: 229}, []specs.LinuxDeviceCgroup{rule("rw")}, nodes, pol, "rw"},
		{"not listed", fuse, []specs.LinuxDeviceCgroup{rule("rwm")}, nodes, policy.Default(), ""},
		{"a disk under a listed name", specs.LinuxDevice{Path: "/dev/fuse", Type: "b", Major: 8}, []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}, nodes, pol, ""},
		{"another driver under a listed name", specs.LinuxDevice{Path: "/dev/fuse", Type: "c", Major: 1, Minor: 1}, []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}, nodes, pol, ""},
		{"another major number", specs.LinuxDevice{Path: "/dev/fuse", Type: "c", Major: 11, Minor: 229}, []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}, nodes, pol, ""},
		{"another minor number", specs.LinuxDevice{Path: "/dev/fuse", Type: "c", Major: 10, Minor: 228}, []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}, nodes, pol, ""},
		{"a disk of the same numbers", specs.LinuxDevice{Path: "/dev/fuse", Type: "b", Major: 10, Minor: 229}, []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}, nodes, pol, ""},
		{"listed, not on this host", fuse, []specs.LinuxDeviceCgroup{rule("rwm")}, nil, pol, ""},
		{"a pipe", specs.LinuxDevice{Path: "/dev/fuse", Type: "p"}, []specs.LinuxDeviceCgroup{rule("rwm")}, nodes, pol, ""},
		{"standard", specs.LinuxDevice{Path: "/dev/null", Type: "c", Major: 1, Minor: 3}, nil, nodes, pol, ""},
		{"memory called null", specs.LinuxDevice{Path: "/dev/null", Type: "c", Major: 1, Minor: 1}, []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}, map[string]Node{"/dev/null": {"c", 1, 1}}, pol, ""},
	} {
		s := with(func(s *specs.Spec) {
			s.Linux.Devices = []specs.LinuxDevice{c.dev}
			s.Linux.Resources = &specs.LinuxResources{Devices: c.rules}
		})
		f := testFacts(s)
		f.Nodes = c.nodes
		res, rep, err := Harden(s, c.pol, f)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := len(res.Plan.Nodes) > 0; got != (c.want != "") || len(res.Plan.Nodes) != len(res.Spec.Linux.Devices) {
			t.Errorf("%s: nodes %v", c.name, res.Plan.Nodes)
		}
		if got := grants(res.Spec.Linux.Resources.Devices, kindOf(c.dev), c.dev.Major, c.dev.Minor); got != c.want && c.name != "standard" {
			t.Errorf("%s: grants %q, not %q", c.name, got, c.want)
		}
		if lost := len(find(rep, report.Denied, "linux.devices*")) > 0; lost != (c.want == "" && c.name != "standard") {
			t.Errorf("%s: lost %v", c.name, rep.Of(report.Denied))
		}
	}
	// Standard devices can be used and not made, whatever the bundle states.
	res, _ := jail(t, with(func(s *specs.Spec) {
		s.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}}
	}))
	for _, d := range plan.StandardDevices() {
		if got := grants(res.Spec.Linux.Resources.Devices, "c", d.Major, max(d.Minor, 0)); got != "rw" {
			t.Errorf("%s grants %q", d.Path, got)
		}
	}
}

func TestHooksAndAnnotations(t *testing.T) {
	h := func(path string, args ...string) []specs.Hook { return []specs.Hook{{Path: path, Args: args}} }
	s := with(func(s *specs.Spec) {
		//lint:ignore SA1019 prestart is what Docker uses
		s.Hooks = &specs.Hooks{Prestart: h("/proc/1000/exe", "libnetwork-setkey", "x"), CreateRuntime: h("/a"), CreateContainer: h("/b"), StartContainer: h("/c"), Poststart: h("/d"), Poststop: h("/e")}
		s.Annotations = map[string]string{
			"run.oci.seccomp_bpf_data": "x", "RUN.OCI.handler": "x", "org.criu.config": "x", "org.systemd.property.MemoryMax": "x", "bundle": "/x", "krun.cpus": "8", "module.wasm.image/variant": "compat",
			"dev.agentjail.limits.pids": "5", "com.example": "stays", "org.criux": "stays", "bundles": "stays",
		}
	})
	res, rep := jail(t, s)
	// With the engine's network, Docker's own hook stays where it has its exact form.
	for _, c := range []struct {
		hook specs.Hook
		mode string
		kept bool
	}{
		{specs.Hook{Path: "/proc/1000/exe", Args: []string{"libnetwork-setkey", "-exec-root=/run/docker", id, "abc"}, Env: []string{"LD_PRELOAD=/x"}}, policy.NetworkEngine, true},
		{specs.Hook{Path: "/proc/1000/exe", Args: []string{"libnetwork-setkey", "-exec-root=/run/docker", id, "abc"}}, policy.NetworkNone, false},
		{specs.Hook{Path: "/proc/1000/exe", Args: []string{"libnetwork-setkey", "-exec-root=/run/docker", "another", "abc"}}, policy.NetworkEngine, false},
		{specs.Hook{Path: "/proc/self/exe", Args: []string{"libnetwork-setkey", "-exec-root=/run/docker", id, "abc"}}, policy.NetworkEngine, false},
		{specs.Hook{Path: "/proc/1000/../../bin/sh", Args: []string{"libnetwork-setkey", id, "abc"}}, policy.NetworkEngine, false},
		{specs.Hook{Path: "/proc/1000/exe", Args: []string{"sh", "libnetwork-setkey", id}}, policy.NetworkEngine, false},
	} {
		//lint:ignore SA1019 prestart is what Docker uses
		s := with(func(s *specs.Spec) { s.Hooks = &specs.Hooks{Prestart: []specs.Hook{c.hook}} })
		pol := policy.Default()
		pol.Network.Mode = c.mode
		res, _, err := Harden(s, pol, testFacts(s))
		if err != nil {
			t.Fatal(err)
		}
		//lint:ignore SA1019 prestart is what Docker uses
		if h := res.Spec.Hooks; (h != nil) != c.kept || h != nil && (len(h.Prestart) != 1 || h.Prestart[0].Env != nil) {
			t.Errorf("%+v with network %s: %s", c.hook, c.mode, jsonOf(t, h))
		}
	}
	if res.Spec.Hooks != nil || len(find(rep, report.Dropped, "hooks.*")) != 6 {
		t.Errorf("%v", rep.Of(report.Dropped))
	}
	contain(t, "hooks", fmt.Sprint(find(rep, report.Dropped, "hooks.prestart")), "the engine's network")
	want := map[string]string{"dev.agentjail.limits.pids": "5", "com.example": "stays", "org.criux": "stays", "bundles": "stays"}
	if !reflect.DeepEqual(res.Spec.Annotations, want) || len(find(rep, report.Dropped, "annotations[*")) != 7 {
		t.Errorf("%v: %v", res.Spec.Annotations, find(rep, report.Dropped, "annotations[*"))
	}
	if *res.Spec.Linux.Resources.Pids.Limit != 5 {
		t.Error("the annotation does not tighten")
	}
	s = with(func(s *specs.Spec) {
		s.Annotations = map[string]string{"dev.agentjail.limits.pids": "5000"}
	})
	res, rep = jail(t, s)
	if *res.Spec.Linux.Resources.Pids.Limit != 1024 || len(find(rep, report.Denied, "annotations[dev.agentjail.limits.pids]")) != 1 {
		t.Errorf("%v", rep.Changes)
	}
	for _, ann := range []map[string]string{{"dev.agentjail.nonsense": "1"}, {"dev.agentjail.limits.pids": "lots"}} {
		s.Annotations = ann
		contain(t, "an annotation", refused(t, s, policy.Default(), testFacts(s)), "annotations[dev.agentjail.")
	}
}

func TestSysctls(t *testing.T) {
	for name, want := range map[string]string{ // "" stays
		"net.ipv4.ip_unprivileged_port_start": "", "net/ipv4/ip_unprivileged_port_start": "", "net.core.somaxconn": "", "net.ipv4.tcp_fin_timeout": "",
		"kernel.shmmax": "", "kernel/shmmax": "", "kernel.msgmax": "", "kernel.sem": "", "fs.mqueue.msg_max": "", "kernel.domainname": "",
		"net.ipv6.conf.all.disable_ipv6": "", "net/ipv6/conf/lo/disable_ipv6": "", "net.ipv6.conf.eth0.disable_ipv6": "empty", "net.ipv6.conf.all.forwarding": "empty",
		"net.ipv4.ping_group_range": "empty", "net.ipv4.ip_forward": "empty", "net.ipv4.conf.all.route_localnet": "empty", "net/ipv4/conf/eth0.100/rp_filter": "empty", "net.core.bpf_jit_enable": "empty",
		"kernel.core_pattern": "host's", "kernel/core_pattern": "host's", "vm.overcommit_memory": "host's", "kernel.hostname": "host's", "kernel.shmmaxx": "host's", "fs.mqueue": "host's", "fs.file-max": "host's",
		"user.max_user_namespaces": "host's", "kernel.yama.ptrace_scope": "host's", "": "host's", "netx.core.somaxconn": "host's",
		"net/../kernel/core_pattern": "not the name", "net.../kernel.core_pattern": "not the name", "net./../kernel": "not the name", "fs.mqueue../x": "not the name", "net.core.somaxconn\nx": "not the name",
	} {
		s := with(func(s *specs.Spec) { s.Linux.Sysctl = map[string]string{name: "1"} })
		res, rep := jail(t, s)
		if _, stays := res.Spec.Linux.Sysctl[name]; stays != (want == "") {
			t.Errorf("%q stays: %v", name, stays)
		}
		if want != "" {
			contain(t, name, fmt.Sprint(rep.Changes), want)
		}
	}
	// Groups that the jail has, and in a namespace of its own alone.
	for was, want := range map[string]string{
		"0 2147483647": "0 65535", "0 65535": "0 65535", "1 0": "1 0", "5 70000": "5 65535", "70000 80000": "", "0": "", "x y": "", "-1 5": "", "": "",
	} {
		for _, own := range []bool{true, false} {
			s := with(func(s *specs.Spec) {
				s.Linux.Sysctl = map[string]string{"net.ipv4.ping_group_range": was}
				if !own {
					s.Linux.Namespaces[2].Path = "/proc/7/ns/net"
				}
			})
			f := testFacts(s)
			f.Joins = map[specs.LinuxNamespaceType]Join{"network": {Jail: "seven", UserNS: "/proc/7/ns/user", Mode: policy.NetworkNone}}
			res, _, err := Harden(s, policy.Default(), f)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Spec.Linux.Sysctl["net.ipv4.ping_group_range"]; own && got != want || !own && got != "" {
				t.Errorf("ping_group_range %q, own %v: %q, want %q", was, own, got, want)
			}
		}
	}
	// A sandbox's own kernel takes none but one, and the report has the others.
	for name, want := range map[string]string{"net.ipv6.conf.all.disable_ipv6": "", "net.core.somaxconn": "settings of its own", "kernel.msgmax": "settings of its own", "vm.overcommit_memory": "host's"} {
		s := with(func(s *specs.Spec) { s.Linux.Sysctl = map[string]string{name: "1"} })
		f := testFacts(s)
		f.Sandbox = "gvisor"
		res, rep, err := Harden(s, policy.Default(), f)
		if err != nil {
			t.Fatal(err)
		}
		if _, stays := res.Spec.Linux.Sysctl[name]; stays != (want == "") || !strings.Contains(fmt.Sprint(rep.Changes), want) {
			t.Errorf("%s in a sandbox stays: %v: %v", name, stays, rep.Changes)
		}
	}
	// IPv6 can be switched off only.
	for _, v := range []string{"0", "", "01", "1 "} {
		s := with(func(s *specs.Spec) {
			s.Linux.Sysctl = map[string]string{"net.ipv6.conf.all.disable_ipv6": v, "net.ipv6.conf.default.disable_ipv6": v}
		})
		if res, _ := jail(t, s); len(res.Spec.Linux.Sysctl) != 0 {
			t.Errorf("%q stays: %v", v, res.Spec.Linux.Sysctl)
		}
	}
	// In another jail's namespace they would be that jail's.
	s := with(func(s *specs.Spec) {
		s.Linux.Namespaces = []specs.LinuxNamespace{{Type: "pid"}, {Type: "mount"}, {Type: "network", Path: "/proc/7/ns/net"}, {Type: "ipc", Path: "/proc/7/ns/ipc"}, {Type: "uts"}}
		s.Linux.Sysctl = map[string]string{"net.core.somaxconn": "1", "kernel.shmmax": "1", "kernel.domainname": "x"}
	})
	f := testFacts(s)
	f.Joins = map[specs.LinuxNamespaceType]Join{"network": {Jail: "seven", UserNS: "/proc/7/ns/user", Mode: policy.NetworkNone}, "ipc": {Jail: "seven", UserNS: "/proc/7/ns/user"}}
	res, rep, err := Harden(s, policy.Default(), f)
	if err != nil || len(res.Spec.Linux.Sysctl) != 1 || res.Spec.Linux.Sysctl["kernel.domainname"] != "x" || len(find(rep, report.Denied, "linux.sysctl*")) != 2 {
		t.Errorf("%v %v %v", err, res.Spec.Linux.Sysctl, rep.Of(report.Denied))
	}
}

func TestPlacement(t *testing.T) {
	s := with(func(s *specs.Spec) {
		s.Linux.IntelRdt = &specs.LinuxIntelRdt{ClosID: "x"}
		s.Linux.MemoryPolicy = &specs.LinuxMemoryPolicy{Mode: "MPOL_BIND"}
		s.Linux.Personality = &specs.LinuxPersonality{Domain: specs.PerLinux32}
		s.Linux.NetDevices = map[string]specs.LinuxNetDevice{"eth0": {}}
		s.Linux.RootfsPropagation = "shared"
	})
	res, rep := jail(t, s)
	l := res.Spec.Linux
	if l.IntelRdt != nil || l.MemoryPolicy != nil || l.Personality != nil || l.NetDevices != nil || l.RootfsPropagation != "rprivate" {
		t.Errorf("%s", jsonOf(t, l))
	}
	for _, f := range []string{"linux.intelRdt", "linux.personality", "linux.netDevices", "linux.rootfsPropagation"} {
		if len(find(rep, report.Denied, f)) != 1 {
			t.Errorf("%s is not named: %v", f, rep.Of(report.Denied))
		}
	}
	s = with(func(s *specs.Spec) { s.Linux.Personality = &specs.LinuxPersonality{Domain: specs.PerLinux} })
	if res, _ := jail(t, s); res.Spec.Linux.Personality == nil {
		t.Error("the native personality is gone")
	}
}

// TestLandlock: a kernel without a Landlock that serves is stated to be one, or
// stops the start.
func TestLandlock(t *testing.T) {
	for _, c := range []struct {
		version  int
		required bool
		missing  bool
		refused  bool
	}{{6, true, false, false}, {2, true, false, false}, {1, false, true, false}, {0, false, true, false}, {1, true, false, true}} {
		s := small()
		f := testFacts(s)
		f.Host.Landlock = c.version
		pol := policy.Default()
		pol.Landlock.Required = c.required
		_, rep, err := Harden(s, pol, f)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "Landlock") {
			t.Errorf("%+v: %v", c, err)
		}
		missing := slices.ContainsFunc(rep.Of(report.Missing), func(x report.Change) bool { return x.Field == "Landlock" })
		if missing != c.missing {
			t.Errorf("%+v: missing is %v", c, missing)
		}
	}
}
