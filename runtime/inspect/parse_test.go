package inspect

import (
	"reflect"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/mountinfo"
)

const statusText = `Name:	sh ev\nil
Umask:	0022
State:	S (sleeping)
Uid:	2057109504	2057109504	2057109504	2057109504
Gid:	2057109504	2057109504	2057109504	2057109504
FDSize:	64
Groups:	2057109509 
CapInh:	0000000000000000
CapPrm:	0000000000000000
CapEff:	0000000000000001
CapBnd:	000001ffffffffff
CapAmb:	0000000000000000
NoNewPrivs:	1
Seccomp:	2
Seccomp_filters:	3
`

func TestParseStatus(t *testing.T) {
	p, err := parseStatus(statusText)
	if err != nil {
		t.Fatal(err)
	}
	const id = 2057109504
	want := &process{
		name: `sh ev\nil`, uids: []uint32{id, id, id, id}, gids: []uint32{id, id, id, id}, groups: []uint32{id + 5},
		caps:       map[string]uint64{"CapInh": 0, "CapPrm": 0, "CapEff": 1, "CapBnd": 0x1ffffffffff, "CapAmb": 0},
		noNewPrivs: true, seccomp: 2, filters: 3,
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v, want %+v", p, want)
	}
	// An older kernel does not count filters; everything else must be there.
	p, err = parseStatus(strings.Replace(statusText, "Seccomp_filters:\t3\n", "", 1))
	if err != nil || p.filters != -1 {
		t.Errorf("without a count of filters: %+v, %v", p, err)
	}
	for _, field := range []string{"Uid", "Gid", "CapBnd"} {
		if _, err := parseStatus(strings.Replace(statusText, field+":", "X"+field+":", 1)); err == nil {
			t.Errorf("a status without %s is taken", field)
		}
	}
	// What is not stated is not there: absence must not look like protection.
	p, err = parseStatus(strings.NewReplacer("NoNewPrivs:\t1\n", "", "Seccomp:\t2\n", "").Replace(statusText))
	if err != nil || p.noNewPrivs || p.seccomp == 2 {
		t.Errorf("unsaid protections: %+v, %v", p, err)
	}
}

func TestParseLimits(t *testing.T) {
	got := parseLimits(`Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max core file size        0                    0                    bytes     
Max processes             1024                 2048                 processes 
Max nice priority         0                    0                    
Max something new         1                    2                    bytes
`)
	want := map[string]rlimit{
		"RLIMIT_CPU": {^uint64(0), ^uint64(0)}, "RLIMIT_CORE": {0, 0}, "RLIMIT_NPROC": {1024, 2048}, "RLIMIT_NICE": {0, 0},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseCgroups(t *testing.T) {
	got := byController(cgroups.Parse("12:cpu,cpuacct:/docker/abc\n3:memory:/a:b\n1:name=systemd:/x\n0::/../y\nnonsense\n"))
	want := map[string]string{"cpu": "/docker/abc", "cpuacct": "/docker/abc", "memory": "/a:b", "name=systemd": "/x", "": "/y"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseIDMap(t *testing.T) {
	got, err := parseIDMap("         0      65534          1\n         1 2013265921      65535\n")
	want := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 65534, Size: 1}, {ContainerID: 1, HostID: 2013265921, Size: 65535}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := parseIDMap("0 0 4294967295\n"); err != nil || got[0].Size != 1<<32-1 {
		t.Errorf("the host's own map: %v, %v", got, err)
	}
	for _, bad := range []string{"", "1 2", "a b c", "1 2 3 4", "0 0 4294967296"} {
		if _, err := parseIDMap(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestGroupDir(t *testing.T) {
	v1, err := mountinfo.Parse(`30 29 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 29 0:27 /docker/outer /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 29 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ controller, path, want string }{
		{"cpu", "/a/b", "/sys/fs/cgroup/cpu,cpuacct/a/b"},
		{"memory", "/docker/outer/a", "/sys/fs/cgroup/memory/a"},
		{"memory", "/docker/outer", "/sys/fs/cgroup/memory"},
		{"memory", "/docker/outerspace", ""}, // not below what is mounted here
		{"memory", "/other", ""},
		{"pids", "/a", ""},
		{"", "/a", "/sys/fs/cgroup/unified/a"},
	} {
		if got := groupDir(v1, c.controller, c.path); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.controller, c.path, got, c.want)
		}
	}
}

func TestEnforced(t *testing.T) {
	for _, c := range []struct {
		label string
		want  bool
	}{
		{"agentjail-default (enforce)", true},
		{"agentjail-default (kill)", true},
		{"agentjail-default (complain)", false},
		{"agentjail-default (unconfined)", false},
		{"unconfined", false},
		{"docker-default (enforce)", false},
		{"agentjail-default-not (enforce)", false},
		{"docker-default//&agentjail-default (enforce)", true},
		{"", false},
	} {
		if enforced(c.label, "agentjail-default") != c.want {
			t.Errorf("%q: want %v", c.label, c.want)
		}
	}
}
