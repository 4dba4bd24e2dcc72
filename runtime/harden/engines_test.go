package harden

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

// TestEngines hardens what real engines wrote: each makes a jail.
func TestEngines(t *testing.T) {
	for name, s := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			pol := policy.Default()
			if !check(t, s, pol, testFacts(s)) {
				_, _, err := Harden(s, pol, testFacts(s))
				t.Fatal(err)
			}
			res, rep := jail(t, s)
			l := res.Spec.Linux
			if len(l.Namespaces) != 8 || res.Spec.Hooks != nil || len(l.Devices) > 0 || res.Plan.Network != (network.Decision{Mode: policy.NetworkNone, Namespace: network.Own}) {
				t.Errorf("%s", jsonOf(t, res.Spec))
			}
			if len(rep.Of(report.Missing)) > 0 {
				t.Errorf("missing on a host that has everything: %v", rep.Of(report.Missing))
			}
		})
	}
}

// TestNamedGrants: what was requested and not given is named, and nothing else
// is; with on_loosen = "refuse" the message names the same.
func TestNamedGrants(t *testing.T) {
	for name, want := range map[string][]string{
		"docker-default": {"linux.namespaces[cgroup]"}, // version 1: Docker gives none there
		"docker-limits":  {"linux.namespaces[cgroup]"},
		"docker-init":    {"linux.namespaces[cgroup]"},
		"docker-volume":  {"linux.namespaces[cgroup]"},
		"docker-tmpfs":   {"linux.namespaces[cgroup]"},
		"docker-device":  {"linux.namespaces[cgroup]", "linux.devices", "linux.resources.devices"},
		"docker-host":    {"linux.namespaces[cgroup]", "linux.namespaces[network]"},
		"docker-ipc-pid-host": {
			"linux.namespaces[cgroup]", "linux.namespaces[pid]", "linux.namespaces[ipc]", "linux.namespaces[uts]", "mounts[/dev/shm]",
		},
		"docker-privileged": {
			"linux.namespaces[cgroup]", "process.capabilities", "linux.devices", "linux.resources.devices", "linux.maskedPaths",
			"mounts[/sys]", "mounts[/sys/fs/cgroup]", "linux.seccomp",
		},
		"docker-loose": {
			"linux.namespaces[cgroup]", "process.capabilities", "process.oomScoreAdj", "linux.seccomp", "linux.maskedPaths", "linux.resources.devices",
			"linux.sysctl[net.ipv4.ip_forward]",
		},
		"ctr-default": {"linux.namespaces[cgroup]", "linux.seccomp"},
		"ctr-mounts":  {"linux.namespaces[cgroup]", "linux.seccomp"},
		"ctr-privileged": {
			"linux.namespaces[cgroup]", "process.capabilities", "linux.devices", "linux.resources.devices", "linux.maskedPaths", "mounts[/sys]", "linux.seccomp",
		},
		"podman-default": {"linux.namespaces[cgroup]"},
		"podman-volume":  {"linux.namespaces[cgroup]"},
		"podman-host": {
			"linux.namespaces[cgroup]", "linux.namespaces[pid]", "linux.namespaces[ipc]", "linux.namespaces[uts]", "linux.namespaces[network]", "mounts[/dev/shm]",
		},
		"podman-privileged": {
			"linux.namespaces[cgroup]", "process.capabilities", "linux.devices", "linux.maskedPaths", "mounts[/sys]", "mounts[/sys/fs/cgroup]", "linux.seccomp", "linux.resources.devices",
		},
	} {
		s := new(specs.Spec)
		readFixture(t, name, s)
		_, rep := jail(t, s)
		var got []string
		for _, c := range rep.Of(report.Denied) {
			got = append(got, c.Field)
			if c.Why == "" || c.Was == "" {
				t.Errorf("%s: %+v states too little", name, c)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: lost\n%v, not\n%v", name, got, want)
		}
		pol := policy.Default()
		pol.OnLoosen = policy.LoosenRefuse
		says := refused(t, s, pol, testFacts(s))
		for _, w := range want {
			contain(t, name+" refused", says, w)
		}
	}
}

// privileged is what Docker of 2026 makes of `docker run --privileged
// --pid=host --ipc=host --uts=host --net=host --cgroupns=host --userns=host
// --device /dev/kvm -v /var/run/docker.sock:/var/run/docker.sock` but for the
// socket (daemon/oci_linux.go).
func privileged() *specs.Spec {
	all := []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_MODULE", "CAP_BPF", "CAP_PERFMON", "CAP_MKNOD", "CAP_CHOWN"}
	return &specs.Spec{
		Version: "1.3.0",
		Root:    &specs.Root{Path: "/var/lib/docker/overlay2/x/merged"},
		Process: &specs.Process{
			Args: []string{"sh"}, Cwd: "/", Env: []string{"PATH=/bin"}, OOMScoreAdj: new(-1000), ApparmorProfile: "unconfined",
			Capabilities: &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "rw"}},
			{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "rw"}},
			{Destination: "/dev/mqueue", Type: "bind", Source: "/dev/mqueue", Options: []string{"rbind"}},
			{Destination: "/dev/shm", Type: "bind", Source: "/dev/shm", Options: []string{"rbind", "rprivate"}},
		},
		Linux: &specs.Linux{
			Namespaces:        []specs.LinuxNamespace{{Type: "mount"}},
			RootfsPropagation: "rshared",
			Devices:           []specs.LinuxDevice{{Path: "/dev/kvm", Type: "c", Major: 10, Minor: 232}, {Path: "/dev/sda", Type: "b", Major: 8}},
			Resources:         &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}},
			Sysctl:            map[string]string{"kernel.core_pattern": "|/x"},
		},
	}
}

func TestPrivileged(t *testing.T) {
	s := privileged()
	if !check(t, s, policy.Default(), testFacts(s)) {
		t.Fatal("does not start")
	}
	res, rep := jail(t, s)
	for _, field := range []string{
		"process.capabilities", "process.oomScoreAdj", "process.apparmorProfile", "linux.seccomp", "linux.maskedPaths", "linux.rootfsPropagation",
		"linux.devices", "linux.resources.devices", "linux.sysctl[kernel.core_pattern]", "mounts[/sys]", "mounts[/sys/fs/cgroup]", "mounts[/dev/shm]", "mounts[/dev/mqueue]",
		"linux.namespaces[pid]", "linux.namespaces[ipc]", "linux.namespaces[uts]", "linux.namespaces[network]", "linux.namespaces[cgroup]",
	} {
		if len(find(rep, report.Denied, field)) != 1 {
			t.Errorf("%s is not named once among %v", field, rep.Of(report.Denied))
		}
	}
	// It is the very jail that an unprivileged container of the same image is.
	plain := clone(s)
	plain.Process.Capabilities, plain.Process.OOMScoreAdj, plain.Process.ApparmorProfile = nil, new(0), "docker-default"
	plain.Linux = &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: "mount"}, {Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "network"}, {Type: "cgroup"}}, MaskedPaths: []string{"/proc/acpi"}, ReadonlyPaths: []string{"/proc/sys"}}
	plain.Mounts = append(plain.Mounts[:3:3], specs.Mount{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		specs.Mount{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		specs.Mount{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777"}})
	other, _ := jail(t, plain)
	got, want := jsonOf(t, sorted(res.Spec)), jsonOf(t, sorted(other.Spec))
	if got != want {
		t.Errorf("privileged\n%s\nunprivileged\n%s", got, want)
	}
	pol := policy.Default()
	pol.OnLoosen = policy.LoosenRefuse
	contain(t, "refusal", refused(t, s, pol, testFacts(s)), "process.capabilities", "linux.seccomp", "CAP_SYS_ADMIN", "linux.namespaces[pid]", "on_loosen")
}

// sorted takes the order of lists out of a comparison.
func sorted(s *specs.Spec) *specs.Spec {
	s = clone(s)
	slices.Sort(s.Linux.MaskedPaths)
	slices.Sort(s.Linux.ReadonlyPaths)
	return s
}

// TestSocketMount: a mounted engine socket cannot be left out without
// misleading, and is refused.
func TestSocketMount(t *testing.T) {
	s := mount(specs.Mount{Destination: "/var/run/docker.sock", Type: "bind", Source: "/run/docker.sock", Options: []string{"rbind"}})
	contain(t, "refusal", refused(t, s, policy.Default(), testFacts(s)), "/run/docker.sock", "a Unix socket lets the container act through a host program", "binds.allow")
}

// TestUnknownFieldsThroughHardening: what this version does not know is dropped
// again beside what it has hardened, unless the delegate could understand it.
func TestUnknownFieldsThroughHardening(t *testing.T) {
	data, err := json.Marshal(small())
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(
		`"args":`, `"xProc":1,"args":`, `"destination":"/proc"`, `"destination":"/proc","xMount":2`, `{"type":"uts"}`, `{"type":"uts","xNS":3}`, `"ociVersion"`, `"xTop":4,"ociVersion"`, `"namespaces"`, `"xLinux":{"a":5},"namespaces"`,
	).Replace(string(data))
	s := new(specs.Spec)
	u, err := bundle.Decode([]byte(text), s)
	if err != nil {
		t.Fatal(err)
	}
	f := testFacts(s)
	f.Unknown = u
	res, rep, err := Harden(s, policy.Default(), f)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(res.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"xProc", "xMount", "xNS", "xTop", "xLinux"} {
		if strings.Contains(string(out), gone) {
			t.Errorf("the hardened bundle has %s: %s", gone, out)
		}
	}
	i := slices.IndexFunc(rep.Changes, func(c report.Change) bool { return c.Field == "config.json" })
	if i < 0 {
		t.Fatalf("no report of the dropped fields: %+v", rep)
	}
	for _, want := range []string{"process.xProc", "mounts[].xMount", "linux.namespaces[].xNS", "xTop", "linux.xLinux"} {
		contain(t, "the report", rep.Changes[i].Was, want)
	}
}

// The default paths of engines, newest first, as of August 2026: moby
// (daemon/pkg/oci/defaults.go), containerd (pkg/oci/spec.go), CRI-O
// (server/masked_paths.go) and Podman (containers/common pkg/config).
var engineMasked = map[string][]string{
	"moby": {
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
		"/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware", "/sys/devices/system/cpu/cpu0/thermal_throttle",
	},
	"containerd": {
		"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
		"/sys/firmware", "/sys/devices/virtual/powercap", "/proc/scsi",
	},
	"cri-o and podman": {
		"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
		"/sys/devices/virtual/powercap", "/sys/firmware", "/sys/fs/selinux", "/proc/interrupts", "/sys/devices/system/cpu/cpu0/thermal_throttle", "/proc/asound",
	},
}

var engineReadonly = []string{"/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

func TestPathsAreASuperset(t *testing.T) {
	res, _ := jail(t, small())
	l := res.Spec.Linux
	for engine, list := range engineMasked {
		for _, p := range list {
			if !slices.Contains(l.MaskedPaths, p) {
				t.Errorf("%s of %s is not masked", p, engine)
			}
		}
	}
	for _, p := range engineReadonly {
		if !slices.Contains(l.ReadonlyPaths, p) && !slices.Contains(l.MaskedPaths, p) {
			t.Errorf("%s is writable", p)
		}
	}
	// What reports the host, but not what jails have views of.
	for _, p := range []string{
		"schedstat", "softirqs", "interrupts", "zoneinfo", "buddyinfo", "pagetypeinfo", "diskstats", "partitions", "slabinfo", "vmallocinfo",
		"pressure", "locks", "timer_list", "sched_debug", "modules", "kallsyms", "iomem", "ioports", "devices", "consoles", "crypto", "filesystems", "cmdline",
		"config.gz", "keys", "key-users", "fs", "sys/fs/quota", "sys/vm/numa_stat", "sys/kernel/sched_domain", "sys/fs/dentry-state", "sys/fs/inode-nr", "sys/fs/file-nr",
		"kcore", "kmsg", "kpagecount", "kpageflags", "kpagecgroup", "sysrq-trigger", "acpi", "bus", "irq", "mtrr", "tty/ldiscs",
	} {
		if !slices.Contains(l.MaskedPaths, "/proc/"+p) {
			t.Errorf("/proc/%s is not masked", p)
		}
	}
	for _, p := range []string{
		"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/loadavg", "/proc/cgroups", "/proc/self", "/proc/sys", "/proc/sys/kernel/random/uuid",
		"/proc/sys/kernel/osrelease", "/proc/sys/net/core/somaxconn", "/sys/devices/system/cpu/online", "/sys/fs/cgroup",
	} {
		for _, m := range l.MaskedPaths {
			if pathname.Within(p, m) {
				t.Errorf("%s cannot be read: %s is masked", p, m)
			}
		}
	}
	// What the bundle masks beyond that stays masked.
	s := with(func(s *specs.Spec) {
		s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = []string{"/proc/stat", "/mine"}, []string{"/proc/kcore", "/etc"}
	})
	res, _ = jail(t, s)
	for _, p := range []string{"/proc/stat", "/mine", "/proc/kcore"} {
		if !slices.Contains(res.Spec.Linux.MaskedPaths, p) {
			t.Errorf("%s is not masked any more", p)
		}
	}
	if !slices.Contains(res.Spec.Linux.ReadonlyPaths, "/etc") || slices.Contains(res.Spec.Linux.ReadonlyPaths, "/proc/kcore") {
		t.Errorf("read-only: %v", res.Spec.Linux.ReadonlyPaths)
	}
}

func BenchmarkHarden(b *testing.B) {
	s := new(specs.Spec)
	readFixture(b, "docker-default", s)
	f := testFacts(s)
	for b.Loop() {
		if _, _, err := Harden(s, policy.Default(), f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	s := new(specs.Spec)
	readFixture(b, "docker-default", s)
	data, err := json.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := bundle.Decode(data, new(specs.Spec)); err != nil {
			b.Fatal(err)
		}
	}
}
