package inspect

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/observe/ebpf/status"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
)

const testPid = 4242

// goodDemands is a jail of the built-in policy on a host that can do all but
// confine by a security module.
func goodDemands() *demands {
	pol := policy.Default()
	m := pol.Userns.Block(3)
	return &demands{
		jail: &state.Jail{
			Brief:   state.Brief{ID: "good", Delegate: "/usr/bin/runc", IDs: m, InitPid: testPid},
			Policy:  pol,
			Process: &specs.Process{Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: 1024, Soft: 1024}}},
			Limits: &specs.LinuxResources{BlockIO: &specs.LinuxBlockIO{
				ThrottleReadBpsDevice: []specs.LinuxThrottleDevice{throttled(8, 0)}, ThrottleWriteBpsDevice: []specs.LinuxThrottleDevice{throttled(8, 0)},
			}},
		},
		report: &report.Report{Changes: []report.Change{
			{Ring: rings.Access, Kind: report.Missing, Field: "process.apparmorProfile", Why: "no module"},
			{Ring: rings.Kernel, Kind: report.Denied, Field: "linux.seccomp", Was: "unconfined", Now: "profile default", Why: "w"},
		}},
		host: hostfacts.Facts{
			Cgroup: hostfacts.Cgroup{Pids: true, Memory: true, Swap: true, CPU: true, IO: true}, TimeNS: true, CgroupNS: true,
			BootTime: 5000, Monotonic: 4900,
		},
	}
}

func throttled(major, minor int64) specs.LinuxThrottleDevice {
	d := specs.LinuxThrottleDevice{Rate: 1}
	d.Major, d.Minor = major, minor
	return d
}

// goodProcess is a process of that jail.
func goodProcess(d *demands, pid int) *process {
	id := d.jail.IDs.UIDs[0].HostID
	p := &process{
		pid: pid, name: "sh", uids: []uint32{id, id, id, id}, gids: []uint32{id, id, id, id}, groups: []uint32{id + 5},
		caps: map[string]uint64{"CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapBnd": 0, "CapAmb": 0}, noNewPrivs: true, seccomp: 2, filters: 2,
		oomAdj: 900, limits: map[string]rlimit{}, userNS: 11, mntNS: 12, pidNS: 13,
		cgroups: map[string]string{"pids": "/j", "memory": "/j", "cpu": "/j", "blkio": "/j", "devices": "/j", "": "/j"},
	}
	for n, v := range plan.RlimitBounds(d.jail.Policy.Limits) {
		p.limits[n] = rlimit{v, v}
	}
	p.limits["RLIMIT_NOFILE"] = rlimit{1024, 1024}
	return p
}

func goodOwner(d *demands) uint32 {
	owner, _ := d.jail.IDs.Owner()
	return owner
}

// goodSeen is that jail as the kernel shows it.
func goodSeen(d *demands) *seen {
	s := &seen{
		ebpf: status.State{Acting: true, Pinned: true, Refused: []string{"socket", "io_uring"}},
		pid:  testPid, processes: []*process{goodProcess(d, testPid), goodProcess(d, testPid+1)},
		uidMap: d.jail.IDs.UIDs, gidMap: d.jail.IDs.GIDs,
		namespaces: map[string]Namespace{},
		userNS:     userNS{owner: goodOwner(d), limits: map[string]string{"max_user_namespaces": "0", "max_net_namespaces": "0"}},
		offsets:    map[string]int64{"boottime": -4990, "monotonic": -4890},
		mounts: mountsOf(`1 0 0:46 / / rw,nosuid,nodev - overlay agentjail rw,lowerdir=.,upperdir=../upper,workdir=../work
2 1 0:72 / /proc rw,nosuid,nodev,noexec - proc proc rw
3 1 0:73 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,nr_inodes=16384
4 3 0:74 / /dev/pts rw,nosuid,noexec - devpts devpts rw
5 3 0:75 / /dev/shm rw,nosuid,nodev,noexec - tmpfs shm rw,size=65536k,nr_inodes=16384
6 3 0:71 / /dev/mqueue rw,nosuid,nodev,noexec - mqueue mqueue rw
7 1 0:78 / /sys ro,nosuid,nodev,noexec - sysfs sysfs ro
8 7 0:32 /j /sys/fs/cgroup/memory ro,nosuid,nodev,noexec - cgroup cgroup rw,memory
9 3 0:6 /null /dev/null rw - devtmpfs devtmpfs rw
10 2 0:80 / /proc/acpi ro - tmpfs tmpfs ro
11 1 8:1 /home/ann/work /work rw,nosuid,nodev,idmapped - ext4 /dev/sda1 rw
12 1 8:1 /var/lib/docker/containers/x/hosts /etc/hosts ro,nosuid,nodev - ext4 /dev/sda1 rw
13 3 0:74 /0 /dev/console rw,nosuid,noexec - devpts devpts rw
14 2 0:81 /proc.meminfo /proc/meminfo ro,nosuid,nodev,noexec - tmpfs agentjail rw,size=8192k,nr_inodes=16384
`),
		hostDevs: map[string]bool{"8:1": true, "0:6": true, "0:5": true, "0:32": true, "0:20": true, "0:46": true},
		rootSize: uint64(d.jail.Policy.Root.Size), rootFiles: uint64(d.jail.Policy.Root.Inodes),
		paths: map[string]pathState{},
		cgroup: cgroupState{
			paths: map[string]string{"pids": "/j", "memory": "/j", "cpu": "/j", "blkio": "/j", "devices": "/j", "": "/j"},
			files: map[string]string{
				"pids.max": "1024\n", "memory.limit_in_bytes": "4294967296\n", "memory.memsw.limit_in_bytes": "4294967296\n",
				"memory.kmem.tcp.limit_in_bytes": "67108864\n",
				"cpu.cfs_quota_us":               "400000\n", "cpu.cfs_period_us": "100000\n",
				"blkio.throttle.read_bps_device": "8:0 1048576\n", "blkio.throttle.write_bps_device": "8:0 1048576\n",
				"devices.list": "b *:* m\nc *:* m\nc 1:3 rwm\nc 5:1 rw\nc 136:* rwm\nc 10:200 rwm\n",
			},
			programs: -1,
		},
		exposed: []Exposed{{Path: "sysinfo(2)", Reveals: "load"}}, ways: 100,
	}
	for i, k := range kinds {
		n := Namespace{Jail: 11 + uint64(i), Host: 101 + uint64(i), Owner: 11}
		if k == "user" || k == "time" {
			n.Owner = 0
		}
		s.namespaces[k] = n
	}
	s.mount("/dev/null").device = "c 1:3"
	s.mount("/dev/console").device = "c 136:0"
	s.network = network.Audit{Want: "nothing but lo", Detail: "only lo"}
	for _, n := range []string{seal.SealLoopback, seal.SealLinks, seal.SealFilter, seal.SealRules4} {
		s.network.Protections = append(s.network.Protections, network.Finding{Name: n, OK: true})
	}
	for _, p := range append(d.masked(), d.readOnly()...) {
		s.paths[p] = pathState{exists: true, readOnly: true, empty: true}
	}
	return s
}

func mountsOf(text string) []mount {
	ms, err := parseMounts(text)
	if err != nil {
		panic(err)
	}
	return ms
}

func (s *seen) mount(point string) *mount {
	i := slices.IndexFunc(s.mounts, func(m mount) bool { return m.Point == point })
	return &s.mounts[i]
}

func (s *seen) addMounts(text string) { s.mounts = append(s.mounts, mountsOf(text)...) }

// protected is a jail with a protected path, and further mounts.
func protected(mounts string) func(*demands, *seen) {
	return func(d *demands, s *seen) {
		d.jail.Protected = []string{"/work/.git/hooks"}
		s.addMounts(mounts)
	}
}

// useV2 turns the host and the jail to control groups of version 2.
func useV2(d *demands, s *seen) {
	d.host.Cgroup.V2 = true
	s.cgroup = cgroupState{v2: true, paths: map[string]string{"": "/j"}, programs: 1, files: map[string]string{
		"pids.max": "1024\n", "memory.max": "4294967296\n", "memory.swap.max": "0\n", "cpu.max": "400000 100000\n",
		"io.max": "8:0 rbps=1048576 wbps=1048576 riops=max wiops=max\n",
	}}
	s.mount("/sys/fs/cgroup/memory").FS = "cgroup2"
}

// inView is a jail with a view at /v of device 0:90.
func inView(mount string, size uint64) func(*demands, *seen) {
	return func(d *demands, s *seen) {
		d.jail.Reviews = []state.Review{{ID: "abc", At: "/v", Dev: unix.Mkdev(0, 90), Size: 1 << 20, Source: "/home/ann/v"}}
		s.addMounts(mount)
		s.mounts[len(s.mounts)-1].size = size
	}
}

// A damage is something that is wrong with a jail, and the check that must report it.
type damage struct {
	check string
	name  string
	do    func(*demands, *seen)
	want  Verdict
	says  string // part of what was seen
}

func put(file, text string) func(*demands, *seen) {
	return func(_ *demands, s *seen) { s.cgroup.files[file] = text }
}

func putV2(file, text string) func(*demands, *seen) {
	return func(d *demands, s *seen) { useV2(d, s); s.cgroup.files[file] = text }
}

func add(text string) func(*demands, *seen) {
	return func(_ *demands, s *seen) { s.addMounts(text + "\n") }
}

func second(do func(*process)) func(*demands, *seen) {
	return func(_ *demands, s *seen) { do(s.processes[1]) }
}

var damages = []damage{
	{"namespaces", "net of the host", func(_ *demands, s *seen) { n := s.namespaces["net"]; n.Jail = n.Host; s.namespaces["net"] = n }, Broken, "net"},
	{"namespaces", "user of the host", func(_ *demands, s *seen) { n := s.namespaces["user"]; n.Jail = n.Host; s.namespaces["user"] = n }, Broken, "user"},
	{"namespaces", "time of the host, without a reason", func(_ *demands, s *seen) { n := s.namespaces["time"]; n.Jail = n.Host; s.namespaces["time"] = n }, Broken, "time"},
	{"namespaces", "no time namespaces", func(_ *demands, s *seen) { delete(s.namespaces, "time") }, Missing, "none"},
	{"namespaces", "a process elsewhere", second(func(p *process) { p.userNS = 101 }), Broken, "process 4243 (sh) is in another user namespace"},
	{"namespaces", "another jail's joined", func(d *demands, _ *seen) {
		d.spec = &specs.Spec{Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace, Path: "/proc/1/ns/net"}}}}
	}, Holds, "another jail's too: net"},
	{"namespace owner", "net of the host's user namespace", func(_ *demands, s *seen) { n := s.namespaces["net"]; n.Owner = 0; s.namespaces["net"] = n }, Broken, "net"},
	{"namespace owner", "ipc of another's", func(_ *demands, s *seen) { n := s.namespaces["ipc"]; n.Owner = 999; s.namespaces["ipc"] = n }, Broken, "ipc"},
	{"resource accounting user", "root of the host", func(_ *demands, s *seen) { s.userNS.owner = 0 }, Broken, "user 0 of the host"},
	{"resource accounting user", "another jail's user", func(_ *demands, s *seen) { s.userNS.owner += 65536 }, Broken, "of the host"},
	{"resource accounting user", "a user's own engine", func(d *demands, s *seen) { d.host.Rootless, s.userNS.owner = true, 1000 }, Missing, "this user's processes"},
	{"nested namespaces", "a network", func(_ *demands, s *seen) { s.userNS.limits["max_net_namespaces"] = "1" }, Broken, "max_net_namespaces is 1"},
	{"nested namespaces", "limits that are read-only", func(_ *demands, s *seen) { s.userNS.limits["max_net_namespaces"], s.userNS.fixed = "1", true }, Missing, "read-only"},
	{"namespaces", "its own, found by a path", func(d *demands, _ *seen) {
		d.jail.OwnUserNS = "/proc/7/fd/8"
		d.spec = &specs.Spec{Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: specs.UserNamespace, Path: "/proc/7/fd/8"}}}}
	}, Holds, "its own: user, mnt"},
	{"clocks", "no offset", func(_ *demands, s *seen) { s.offsets = nil }, Broken, "0 s away"},
	{"clocks", "forward", func(_ *demands, s *seen) { s.offsets["boottime"] = 100 }, Broken, "boottime"},
	{"clocks", "of the host", func(_ *demands, s *seen) { n := s.namespaces["time"]; n.Jail = n.Host; s.namespaces["time"] = n }, Broken, "uptime"},
	{"clocks", "no time namespaces", func(_ *demands, s *seen) { delete(s.namespaces, "time") }, Missing, "no time namespaces"},
	{"network", "a link is up", func(_ *demands, s *seen) {
		s.network.Protections[1] = network.Finding{Name: seal.SealLinks, Detail: "eth0 is up"}
	}, Broken, "eth0"},
	{"network", "nothing known", func(_ *demands, s *seen) { s.network.Protections = nil }, Broken, "not sealed"},
	{"network", "no filter", func(_ *demands, s *seen) { s.network.Protections[2].OK = false }, Broken, "nftables"},
	{"network", "no filter, as reported", func(d *demands, s *seen) {
		s.network.Protections[2].OK = false
		d.report.Add(report.Change{Kind: report.Missing, Field: "network seal: nftables"})
	}, Missing, "nftables"},
	{"network", "left open", func(_ *demands, s *seen) { s.network = network.Audit{Open: true, Detail: "the engine's"} }, Holds, "the engine's"},
	{"network", "a further one does not hold", func(_ *demands, s *seen) {
		s.network.Protections = append(s.network.Protections, network.Finding{Name: "helper", Detail: "it has ended"})
	}, Broken, "helper: it has ended"},
	{"namespace owner", "another user namespace", func(_ *demands, s *seen) {
		n := s.namespaces["net"]
		n.Owner = 99
		s.namespaces["net"] = n
	}, Broken, "net"},
	{"namespace owner", "a given network", func(d *demands, s *seen) {
		d.jail.Network.Namespace = network.Given
		n := s.namespaces["net"]
		n.Owner = 99
		s.namespaces["net"] = n
	}, Holds, "the network's is the engine's"},
	{"root", "no overlay", func(_ *demands, s *seen) { s.mounts[0].FS = "ext4" }, Broken, "ext4"},
	{"root", "the engine's own overlay", func(_ *demands, s *seen) {
		s.mounts[0].Super = "rw,upperdir=/var/lib/docker/overlay2/x/diff"
	}, Broken, "/var/lib/docker"},
	{"root", "another program's overlay", func(_ *demands, s *seen) { s.mounts[0].Source = "overlay" }, Broken, "../upper"},
	{"root", "no upper directory", func(_ *demands, s *seen) { s.mounts[0].Super = "rw" }, Broken, "nowhere known"},
	{"root", "with set-id", func(_ *demands, s *seen) { s.mounts[0].Options = "rw,nodev" }, Broken, "nosuid"},
	{"root", "too large", func(_ *demands, s *seen) { s.rootSize++ }, Broken, ""},
	{"root", "unlimited", func(_ *demands, s *seen) { s.rootSize = 0 }, Broken, ""},
	{"root", "too many files", func(_ *demands, s *seen) { s.rootFiles *= 2 }, Broken, ""},
	{"root", "a mount over it", add("90 1 8:1 / / rw,nosuid,nodev - ext4 /dev/sda1 rw"), Broken, "ext4"},
	{"tmpfs", "without a size", add("90 1 0:99 / /tmp rw,nosuid,nodev - tmpfs t rw,nr_inodes=10"), Broken, "/tmp has no size"},
	{"tmpfs", "without a number of files", add("90 1 0:99 / /tmp rw,nosuid,nodev - tmpfs t rw,size=10k"), Broken, "/tmp has no number"},
	{"tmpfs", "too large", add("90 1 0:99 / /tmp rw,nosuid,nodev - tmpfs t rw,size=8388608k,nr_inodes=10"), Broken, "size=8388608k"},
	{"tmpfs", "too many files", add("90 1 0:99 / /tmp rw,nosuid,nodev - tmpfs t rw,size=10k,nr_inodes=99999999"), Broken, "nr_inodes"},
	{"tmpfs", "unlimited", add("90 1 0:99 / /tmp rw,nosuid,nodev - tmpfs t rw,size=0,nr_inodes=0"), Broken, "size=0"},
	{"tmpfs", "with devices", add("90 1 0:99 / /tmp rw,nosuid - tmpfs t rw,size=10k,nr_inodes=10"), Broken, "nodev"},
	{"tmpfs", "with set-id", func(_ *demands, s *seen) { s.mount("/dev").Options = "rw" }, Broken, "/dev is without nosuid"},
	{"bind mounts", "owners not mapped", func(_ *demands, s *seen) { s.mount("/work").Options = "rw,nosuid,nodev" }, Broken, "/work (ext4 /home/ann/work"},
	{"bind mounts", "with set-id", func(_ *demands, s *seen) { s.mount("/work").Options = "rw,nodev,idmapped" }, Broken, "nosuid"},
	{"bind mounts", "with devices", func(_ *demands, s *seen) { s.mount("/etc/hosts").Options = "ro,nosuid" }, Broken, "nodev"},
	{"bind mounts", "the host's /dev", add("90 1 0:6 / /hostdev ro,nosuid,nodev - devtmpfs d rw"), Broken, "/hostdev"},
	{"bind mounts", "an unknown file system", add("90 1 0:98 / /nfs rw,nosuid,nodev - nfs4 server:/ rw"), Broken, "/nfs"},
	{"bind mounts", "the host's tmpfs", func(_ *demands, s *seen) {
		s.hostDevs["0:99"] = true
		s.addMounts("90 1 0:99 /x /x rw,nosuid,nodev - tmpfs t rw,size=10k,nr_inodes=10\n")
	}, Broken, "/x"},
	{"bind mounts", "the engine's shared memory", func(_ *demands, s *seen) {
		s.hostDevs["0:75"] = true
		s.mount("/dev/shm").Super = "rw,size=65536k"
	}, Holds, "the engine's /dev/shm"},
	{"bind mounts", "the host's shared memory", func(_ *demands, s *seen) { s.hostDevs["0:75"] = true; s.mount("/dev/shm").Super = "rw" }, Broken, "/dev/shm"},
	{"bind mounts", "shared memory elsewhere", func(_ *demands, s *seen) {
		s.hostDevs["0:75"] = true
		s.mount("/dev/shm").Point = "/shm"
	}, Broken, "/shm"},
	{"workspace", "as it was made", inView("60 1 0:90 / /v rw,nosuid,nodev - overlay agentjail rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n", 1<<20), Holds, "writes go from /v to view abc, 1MiB, and not to /home/ann/v"},
	{"bind mounts", "a view", inView("60 1 0:90 / /v rw,nosuid,nodev - overlay agentjail rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n", 1<<20), Holds, "1 writable as views"},
	{"workspace", "another device", inView("60 1 0:91 / /v rw,nosuid,nodev - overlay agentjail rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n", 1<<20), Broken, "/v is device 0:91, and the view is 0:90"},
	{"bind mounts", "a view of another device", inView("60 1 0:91 / /v rw,nosuid,nodev - overlay agentjail rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n", 1<<20), Broken, "/v (overlay"},
	{"workspace", "set-id", inView("60 1 0:90 / /v rw,nodev - overlay agentjail rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n", 1<<20), Broken, "/v is without nosuid"},
	{"workspace", "devices", inView("60 1 0:90 / /v rw,nosuid - overlay agentjail rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n", 1<<20), Broken, "/v is without nodev"},
	{"workspace", "read-only", inView("60 1 0:90 / /v ro,nosuid,nodev - overlay agentjail rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n", 1<<20), Broken, "/v is read-only"},
	{"workspace", "too large", inView("60 1 0:90 / /v rw,nosuid,nodev - overlay agentjail rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n", 1<<20+1), Broken, "and the view 1MiB"},
	{"workspace", "of unknown size", inView("60 1 0:90 / /v rw,nosuid,nodev - overlay agentjail rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n", 0), Broken, "0B"},
	{"workspace", "another layer", inView("60 1 0:90 / /v rw,nosuid,nodev - overlay agentjail rw,lowerdir=l,upperdir=/srv/x,workdir=u/work\n", 1<<20), Broken, "/v is overlay / of the host"},
	{"workspace", "another's overlay", inView("60 1 0:90 / /v rw,nosuid,nodev - overlay overlay rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n", 1<<20), Broken, "/v is overlay"},
	{"workspace", "elsewhere", inView("60 1 0:90 / /w rw,nosuid,nodev - overlay agentjail rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n", 1<<20), Broken, "/v is not mounted any more"},
	{"workspace", "the directory over it", inView("60 1 0:90 / /v rw,nosuid,nodev - overlay agentjail rw,lowerdir=l,upperdir=u/upper,workdir=u/work\n61 60 8:1 /home/ann/v /v rw,nosuid,nodev,idmapped - ext4 /dev/sda1 rw\n", 1<<20), Broken, "/v is ext4 /home/ann/v of the host"},
	{"procfs", "the host's proc", func(_ *demands, s *seen) { s.mount("/proc").Dev = "0:5" }, Broken, "/proc is the host's proc"},
	{"procfs", "writable sysfs", func(_ *demands, s *seen) {
		s.mount("/sys").Options, s.mount("/sys").Super = "rw,nosuid,nodev,noexec", "rw"
	}, Broken, "/sys is without ro"},
	{"procfs", "the host's sysfs", func(_ *demands, s *seen) { s.mount("/sys").Dev = "0:20" }, Broken, "/sys is the host's sysfs"},
	{"procfs", "a part of the host's sysfs", add("90 1 0:20 /devices/system/cpu /sys/devices/system/cpu ro,nosuid,nodev,noexec - sysfs sysfs rw"), Broken, "/devices/system/cpu"},
	{"procfs", "all control groups", func(_ *demands, s *seen) { s.mount("/sys/fs/cgroup/memory").Root = "/" }, Broken, "cgroup"},
	{"procfs", "another jail's group", func(_ *demands, s *seen) { s.mount("/sys/fs/cgroup/memory").Root = "/other" }, Broken, "/other"},
	{"procfs", "its group writable", func(_ *demands, s *seen) {
		s.mount("/sys/fs/cgroup/memory").Options = "rw,nosuid,nodev,noexec"
	}, Broken, "/sys/fs/cgroup/memory is without ro"},
	{"procfs", "proc with programs", func(_ *demands, s *seen) { s.mount("/proc").Options = "rw,nosuid,nodev" }, Broken, "noexec"},
	{"device nodes", "a disk", func(_ *demands, s *seen) { s.mount("/dev/null").device = "b 8:0" }, Broken, "b 8:0"},
	{"device nodes", "a driver", func(_ *demands, s *seen) { s.mount("/dev/null").device = "c 10:232" }, Broken, "c 10:232"},
	{"device nodes", "the host's terminal", func(_ *demands, s *seen) {
		s.hostDevs["0:74"] = true
		s.mount("/dev/console").device = "c 4:1"
	}, Broken, "/dev/console"},
	{"propagation", "to the host", func(_ *demands, s *seen) { s.mounts[3].Tags = "shared:7" }, Broken, "/dev/pts is shared:7"},
	{"propagation", "from the host", func(_ *demands, s *seen) { s.mounts[0].Tags = "master:1" }, Broken, "master:1"},
	{"control groups", "the host's root group", func(_ *demands, s *seen) { s.cgroup.paths["pids"] = "/" }, Broken, "pids is the host's root group"},
	{"control groups", "a process elsewhere", second(func(p *process) { p.cgroups["memory"] = "/" }), Broken, "process 4243 (sh) is in / of memory"},
	{"control groups", "a neighbour's name", second(func(p *process) { p.cgroups["pids"] = "/jail2" }), Broken, "/jail2"},
	{"control groups", "version 2, elsewhere", func(d *demands, s *seen) { useV2(d, s); s.processes[1].cgroups[""] = "/k" }, Broken, "/k"},
	{"control groups", "none", func(_ *demands, s *seen) { s.cgroup.paths = nil }, Missing, "no control groups"},
	{"processes", "above policy", put("pids.max", "1025\n"), Broken, "1025"},
	{"processes", "unlimited", put("pids.max", "max\n"), Broken, "unlimited"},
	{"processes", "no limit", func(_ *demands, s *seen) { delete(s.cgroup.files, "pids.max") }, Broken, "no limit"},
	{"processes", "no controller", func(d *demands, s *seen) { delete(s.cgroup.files, "pids.max"); d.host.Cgroup.Pids = false }, Missing, "cannot"},
	{"processes", "stricter policy", func(d *demands, _ *seen) { d.jail.Policy.Limits.Pids = 5 }, Broken, "1024"},
	{"memory", "unlimited, version 1", put("memory.limit_in_bytes", "9223372036854771712\n"), Broken, "unlimited"},
	{"memory", "above policy", putV2("memory.max", "4294967297\n"), Broken, "4294967297B"},
	{"memory", "unlimited, version 2", putV2("memory.max", "max\n"), Broken, "unlimited"},
	{"memory", "no controller", func(d *demands, s *seen) {
		delete(s.cgroup.files, "memory.limit_in_bytes")
		d.host.Cgroup.Memory = false
	}, Missing, "cannot"},
	{"swap", "above policy, version 1", put("memory.memsw.limit_in_bytes", "4294971392\n"), Broken, ""},
	{"swap", "unlimited, version 2", putV2("memory.swap.max", "max\n"), Broken, "unlimited"},
	{"swap", "above policy, version 2", putV2("memory.swap.max", "4096\n"), Broken, "4KiB"},
	{"swap", "not accounted", func(d *demands, s *seen) { useV2(d, s); delete(s.cgroup.files, "memory.swap.max") }, Missing, "account"},
	{"processors", "unlimited, version 1", put("cpu.cfs_quota_us", "-1\n"), Broken, "unlimited"},
	{"processors", "unlimited, version 2", putV2("cpu.max", "max 100000\n"), Broken, "unlimited"},
	{"socket buffers", "unlimited", put("memory.kmem.tcp.limit_in_bytes", "9223372036854771712\n"), Broken, "unlimited"},
	{"socket buffers", "above policy", put("memory.kmem.tcp.limit_in_bytes", "67112960\n"), Broken, "65540KiB"},
	{"socket buffers", "no limit", func(d *demands, s *seen) {
		d.host.Cgroup.Sockets = true
		delete(s.cgroup.files, "memory.kmem.tcp.limit_in_bytes")
	}, Broken, "no limit"},
	{"socket buffers", "no accounting", func(d *demands, s *seen) {
		d.host.Cgroup.Sockets = false
		delete(s.cgroup.files, "memory.kmem.tcp.limit_in_bytes")
	}, Missing, "cannot"},
	{"processors", "above policy", putV2("cpu.max", "500000 100000\n"), Broken, "5"},
	{"processors", "no limit", func(_ *demands, s *seen) { delete(s.cgroup.files, "cpu.cfs_quota_us") }, Broken, "no limit"},
	{"processors", "no controller", func(d *demands, s *seen) { delete(s.cgroup.files, "cpu.cfs_quota_us"); d.host.Cgroup.CPU = false }, Missing, "cannot"},
	{"disk I/O", "not throttled", put("blkio.throttle.write_bps_device", ""), Broken, "writing 8:0 is not throttled"},
	{"disk I/O", "another disk", put("blkio.throttle.read_bps_device", "8:16 1048576\n"), Broken, "reading 8:0"},
	{"disk I/O", "too fast", put("blkio.throttle.read_bps_device", "8:0 99999999999\n"), Broken, "reading 8:0 at"},
	{"disk I/O", "not throttled, version 2", putV2("io.max", "8:0 rbps=1048576 wbps=max riops=max wiops=max\n"), Broken, "writing 8:0"},
	{"disk I/O", "host without", func(d *demands, s *seen) {
		d.report.Add(report.Change{Kind: report.Missing, Field: "linux.resources.blockIO", Why: "no throttle"})
		s.cgroup.files["blkio.throttle.write_bps_device"] = ""
	}, Missing, "no throttle"},
	{"rlimits", "above policy", second(func(p *process) { p.limits["RLIMIT_CORE"] = rlimit{0, 1} }), Broken, "process 4243 (sh): RLIMIT_CORE is 0 of 1"},
	{"rlimits", "the host's core handler runs", second(func(p *process) { p.limits["RLIMIT_CORE"] = rlimit{} }), Broken, "process 4243 (sh): RLIMIT_CORE is 0 of 0"},
	{"rlimits", "host without CAP_SYS_RESOURCE", func(d *demands, s *seen) {
		d.report.Add(report.Change{Kind: report.Missing, Field: "process.rlimits[RLIMIT_CORE]", Why: "the engine's own bound"})
		for _, p := range s.processes {
			p.limits["RLIMIT_CORE"] = rlimit{}
		}
	}, Missing, "the engine's own bound"},
	{"rlimits", "unlimited", second(func(p *process) { p.limits["RLIMIT_NPROC"] = rlimit{5, ^uint64(0)} }), Broken, "unlimited"},
	{"rlimits", "above the bundle's", func(_ *demands, s *seen) { s.processes[0].limits["RLIMIT_NOFILE"] = rlimit{2048, 2048} }, Broken, "RLIMIT_NOFILE is 2048"},
	{"rlimits", "not reported", second(func(p *process) { delete(p.limits, "RLIMIT_NICE") }), Broken, "RLIMIT_NICE"},
	{"oom score", "spared", second(func(p *process) { p.oomAdj = 899 }), Broken, "process 4243 (sh) has 899"},
	{"user ids", "the host's own map", func(_ *demands, s *seen) { s.uidMap = []specs.LinuxIDMapping{{Size: 1<<32 - 1}} }, Broken, "map 0 0 4294967295"},
	{"user ids", "another block", func(d *demands, s *seen) { s.uidMap = d.jail.Policy.Userns.Block(4).UIDs }, Broken, ""},
	{"user ids", "a recorded map to people", func(d *demands, s *seen) {
		s.uidMap = []specs.LinuxIDMapping{{HostID: 1000, Size: 1}}
		d.jail.IDs.UIDs = s.uidMap
	}, Broken, "1000"},
	{"user ids", "outside the pool", func(d *demands, _ *seen) { d.jail.Policy.Userns.Pool.First = 1 << 30 }, Broken, ""},
	{"group ids", "the host's own map", func(_ *demands, s *seen) { s.gidMap = []specs.LinuxIDMapping{{Size: 1<<32 - 1}} }, Broken, ""},
	{"process credentials", "host root", second(func(p *process) { p.uids[3] = 0 }), Broken, "process 4243 (sh) is uid 0"},
	{"process credentials", "a host group", second(func(p *process) { p.groups = []uint32{27} }), Broken, "group 27"},
	{"process credentials", "somebody else", func(_ *demands, s *seen) { s.strangers = []string{"process 7 (x)"} }, Broken, "process 7 (x)"},
	{"capabilities", "effective", second(func(p *process) { p.caps["CapEff"] = 0x200000 }), Broken, "CapEff=200000"},
	{"capabilities", "only bounding", second(func(p *process) { p.caps["CapBnd"] = 1 }), Broken, "CapBnd=1"},
	{"capabilities", "only ambient", second(func(p *process) { p.caps["CapAmb"] = 1 }), Broken, "CapAmb=1"},
	{"capabilities", "only inheritable", second(func(p *process) { p.caps["CapInh"] = 1 }), Broken, "CapInh=1"},
	{"capabilities", "only permitted", second(func(p *process) { p.caps["CapPrm"] = 1 }), Broken, "CapPrm=1"},
	{"no_new_privs", "not set", second(func(p *process) { p.noNewPrivs = false }), Broken, "process 4243"},
	{"security module", "required, and none", func(d *demands, _ *seen) { d.jail.Policy.AppArmor.Required = true }, Broken, "neither"},
	{"security module", "unconfined", func(d *demands, s *seen) {
		d.host.AppArmor = true
		d.jail.Process.ApparmorProfile = "agentjail-default"
		s.processes[0].label = "agentjail-default (enforce)"
		s.processes[1].label = "unconfined"
	}, Broken, `process 4243 (sh) has "unconfined"`},
	{"security module", "only complaining", func(d *demands, s *seen) {
		d.host.AppArmor = true
		d.jail.Process.ApparmorProfile = "agentjail-default"
		for _, p := range s.processes {
			p.label = "agentjail-default (complain)"
		}
	}, Broken, "complain"},
	{"security module", "confined", func(d *demands, s *seen) {
		d.host.AppArmor = true
		d.jail.Process.ApparmorProfile = "agentjail-default"
		for _, p := range s.processes {
			p.label = "agentjail-default (enforce)"
		}
	}, Holds, "agentjail-default (enforce)"},
	{"security module", "the engine's profile", func(d *demands, s *seen) {
		d.host.AppArmor = true
		d.jail.Process.ApparmorProfile = "docker-default"
		for _, p := range s.processes {
			p.label = "docker-default (enforce)"
		}
	}, Missing, "the engine's profile docker-default holds"},
	{"security module", "the engine's profile, without a reason", func(d *demands, s *seen) {
		d.host.AppArmor, d.report = true, new(report.Report)
		d.jail.Process.ApparmorProfile = "docker-default"
		for _, p := range s.processes {
			p.label = "docker-default (enforce)"
		}
	}, Broken, "instead, without a reason"},
	{"security module", "no profile, without a reason", func(d *demands, _ *seen) { d.host.AppArmor, d.report = true, new(report.Report) }, Broken, "without a reason"},
	{"security module", "another SELinux label", func(d *demands, s *seen) {
		d.host.SELinux = true
		d.jail.Process.SelinuxLabel = "system_u:system_r:container_t:s0:c1,c2"
		s.processes[0].label = "system_u:system_r:container_t:s0:c1,c2"
		s.processes[1].label = "system_u:system_r:unconfined_t:s0"
	}, Broken, "unconfined_t"},
	{"masked paths", "readable", func(_ *demands, s *seen) { s.paths["/proc/kcore"] = pathState{exists: true} }, Broken, "/proc/kcore"},
	{"masked paths", "read-only is not hidden", func(_ *demands, s *seen) { s.paths["/proc/keys"] = pathState{exists: true, readOnly: true} }, Broken, "/proc/keys"},
	{"masked paths", "a path of the bundle", func(d *demands, s *seen) {
		d.spec = &specs.Spec{Linux: &specs.Linux{MaskedPaths: []string{"/proc/extra"}}}
		s.paths["/proc/extra"] = pathState{exists: true}
	}, Broken, "/proc/extra"},
	{"masked paths", "not there", func(_ *demands, s *seen) { s.paths["/proc/kcore"] = pathState{} }, Holds, "1 not there"},
	{"read-only paths", "writable", func(_ *demands, s *seen) { s.paths["/proc/sys"] = pathState{exists: true} }, Broken, "/proc/sys"},
	{"protected paths", "gone", protected("60 2 8:1 /p/.git/config /work/.git/config ro - ext4 /dev/sda rw\n"), Broken, "/work/.git/hooks is not mounted any more"},
	{"protected paths", "writable", protected("60 2 8:1 /p/.git/hooks /work/.git/hooks ro - ext4 /dev/sda rw\n61 2 8:1 /p/.git/hooks /work/.git/hooks rw - ext4 /dev/sda rw\n"), Broken, "/work/.git/hooks can be written to"},
	{"protected paths", "as they were made", protected("60 2 8:1 /p/.git/hooks /work/.git/hooks ro,nosuid,nodev - ext4 /dev/sda rw\n"), Holds, "1, read-only"},
	{"protected paths", "by policy", func(d *demands, _ *seen) { d.jail.Policy.Binds.Protect = false }, Holds, "binds.protect = false"},
	{"device rules", "all devices", put("devices.list", "a *:* rwm\n"), Broken, "a *:* rwm"},
	{"device rules", "disks", put("devices.list", "c 1:3 rwm\nb 8:0 r\n"), Broken, "b 8:0 r"},
	{"device rules", "all of a major", put("devices.list", "c 1:* rwm\n"), Broken, "c 1:*"},
	{"device rules", "no program", func(d *demands, s *seen) { useV2(d, s); s.cgroup.programs = 0 }, Broken, "no program"},
	{"device rules", "not reported", func(d *demands, s *seen) { useV2(d, s); s.cgroup.programs = -1 }, Missing, "does not report"},
	{"sandbox filter", "none", func(d *demands, s *seen) {
		d.sandbox = "gvisor"
		s.processes[1].seccomp = 0
	}, Broken, "has mode 0"},
	{"sandbox filter", "all", func(d *demands, s *seen) { d.sandbox = "gvisor" }, Holds, "beneath the jail's"},
	{"namespaces", "the host's clocks, of a sandbox", func(d *demands, s *seen) {
		d.sandbox = "gvisor"
		s.namespaces["time"] = Namespace{Jail: s.namespaces["time"].Host, Host: s.namespaces["time"].Host}
	}, Holds, "its own"},
	{"namespaces", "the host's network, of a sandbox", func(d *demands, s *seen) {
		d.sandbox = "gvisor"
		s.namespaces["net"] = Namespace{Jail: s.namespaces["net"].Host, Host: s.namespaces["net"].Host}
	}, Broken, "net"},
	{"user ids", "the overflow user's, of a sandbox", func(d *demands, s *seen) {
		d.sandbox = "gvisor"
		s.uidMap = []specs.LinuxIDMapping{{ContainerID: 65534, HostID: 65534, Size: 1}}
	}, Holds, "overflow user alone"},
	{"user ids", "the overflow user's, of no sandbox", func(_ *demands, s *seen) {
		s.uidMap = []specs.LinuxIDMapping{{ContainerID: 65534, HostID: 65534, Size: 1}}
	}, Broken, "map 65534 65534 1"},
	{"process credentials", "another's, of a sandbox", func(d *demands, s *seen) {
		d.sandbox = "gvisor"
		s.processes[1].uids = []uint32{1000, 1000, 1000, 1000}
	}, Broken, "uid 1000 of the host"},
	{"processes", "more than a sandbox's", func(d *demands, s *seen) {
		d.jail.Delegate, d.sandbox = "/usr/bin/runsc", "gvisor"
		s.cgroup.files["pids.max"] = "1000000"
	}, Broken, "1000000"},
	{"seccomp", "none", second(func(p *process) { p.seccomp = 0 }), Broken, "process 4243 (sh) has mode 0"},
	{"seccomp", "no filter", second(func(p *process) { p.filters = 0 }), Broken, "no filter"},
	{"seccomp", "one filter", second(func(p *process) { p.filters = 1 }), Broken, "lacks the inner filter"},
	{"seccomp", "one filter on the init step", second(func(p *process) { p.filters, p.entering = 1, true }), Holds, "filter"},
	{"seccomp", "a kernel that does not count", second(func(p *process) { p.filters = -1 }), Holds, "a filter"},
	{"eBPF programs", "none loaded", func(_ *demands, s *seen) { s.ebpf = status.State{} }, Missing, "none act"},
	{"eBPF programs", "gone", func(_ *demands, s *seen) { s.ebpf.Acting, s.ebpf.Pinned = false, true }, Broken, "none act"},
	{"eBPF programs", "with unknown refusals", func(_ *demands, s *seen) { s.ebpf.Refused = nil }, Holds, "not known"},
	{"eBPF programs", "the engine's ids", func(d *demands, s *seen) { d.jail.IDs.Given = true }, Missing, "do not know this jail"},
	{"eBPF programs", "the engine's ids, registered", func(d *demands, s *seen) { d.jail.IDs.Given, s.registered = true, true }, Holds, "io_uring"},
	{"eBPF programs", "a user's", func(d *demands, s *seen) { d.host.Rootless = true }, Missing, "a user's"},
	{"eBPF programs", "none loaded for policy's block", func(d *demands, s *seen) { d.jail.Policy.EBPF.Block, s.ebpf = []string{"exec"}, status.State{} }, Broken, "blocks here, exec"},
	{"eBPF programs", "policy's block unknown", func(d *demands, s *seen) {
		d.jail.Policy.EBPF.Block, s.ebpf.Hooks = []string{"exec"}, []string{"exec"}
	}, Broken, "blocks here, exec"},
	{"eBPF programs", "policy's block half loaded", func(d *demands, s *seen) {
		d.jail.Policy.EBPF.Block, s.ebpf.Hooks, s.registered = []string{"exec", "connect"}, []string{"exec"}, true
	}, Broken, "blocks here, connect"},
	{"eBPF programs", "policy's block", func(d *demands, s *seen) {
		d.jail.Policy.EBPF.Block, s.ebpf.Hooks, s.registered = []string{"exec"}, []string{"exec"}, true
	}, Holds, "io_uring, exec"},
}

func TestGoodJailHolds(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		d := goodDemands()
		s := goodSeen(d)
		if v2 {
			useV2(d, s)
		}
		r := judge(d, s)
		if !r.Holds {
			t.Errorf("version 2 %v: a good jail is broken", v2)
		}
		for _, f := range r.Findings {
			want := Holds
			if f.Name == "security module" {
				want = Missing
			}
			if f.Verdict != want {
				t.Errorf("version 2 %v: %s is %s: %s", v2, f.Name, f.Verdict, f.Seen)
			}
		}
	}
}

func TestAbout(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0B", 4096: "4KiB", 512 << 20: "512MiB", 4 << 30: "4GiB", 3011644 << 10: "2.872GiB", 5<<20 + 1: "5MiB", 999: "999B",
	} {
		if got := about(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestNobodyMapHolds(t *testing.T) {
	d := goodDemands()
	d.jail.Policy.Userns.Map = policy.MapNobody
	d.jail.IDs = d.jail.Policy.Userns.Block(3)
	s := goodSeen(d)
	for _, p := range s.processes {
		p.uids, p.gids, p.groups = []uint32{65534, 65534, 65534, 65534}, []uint32{65534, 65534, 65534, 65534}, nil
	}
	for _, f := range judge(d, s).Findings {
		if f.Verdict == Broken {
			t.Errorf("%s: %s", f.Name, f.Seen)
		}
	}
}

// TestDamages damages a good jail in one way at a time.
func TestDamages(t *testing.T) {
	told := map[string]bool{}
	for _, x := range damages {
		t.Run(x.check+"/"+x.name, func(t *testing.T) {
			d := goodDemands()
			s := goodSeen(d)
			x.do(d, s)
			r := judge(d, s)
			i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Name == x.check })
			if i < 0 {
				t.Fatalf("there is no check %q", x.check)
			}
			f := r.Findings[i]
			if f.Verdict != x.want || !strings.Contains(f.Seen, x.says) {
				t.Errorf("%s: %s; want %s with %q", f.Verdict, f.Seen, x.want, x.says)
			}
			if f.Verdict != Holds && f.Want == "" {
				t.Error("it does not state what should be")
			}
			if broken := f.Verdict == Broken; broken && r.Holds {
				t.Error("the jail as a whole holds")
			}
		})
		told[x.check] = told[x.check] || x.want == Broken
	}
	for _, c := range checks {
		if !told[c.name] {
			t.Errorf("no damage breaks the check %q: it may hold whatever happens", c.name)
		}
	}
}

// TestBoundary: what a delegate's boundary puts out of sight does not hold, whatever
// is seen, and the rest is judged as ever.
func TestBoundary(t *testing.T) {
	d := goodDemands()
	s := goodSeen(d)
	d.boundary = traits.Boundary{Other: map[string]traits.Place{"seccomp": traits.Guest, "masked paths": traits.Void}}
	r := judge(d, s)
	for _, f := range r.Findings {
		want := map[string]Verdict{"seccomp": InGuest, "masked paths": Void, "security module": Missing}[f.Name]
		if want == "" {
			want = Holds
		}
		if f.Verdict != want {
			t.Errorf("%s: %s, want %s", f.Name, f.Verdict, want)
		}
	}
	var b bytes.Buffer
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"held by: host kernel\nheld by: void: masked paths\nheld by: guest kernel: seccomp\n", "31 protections hold, 1 missing on this host, 1 not seen from it, 1 void\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	s.processes[1].noNewPrivs = false
	if r := judge(d, s); r.Holds {
		t.Error("a broken protection of the host is not seen")
	}
}

// TestBoundaryNames: the table of boundaries names protections as inspect does.
func TestBoundaryNames(t *testing.T) {
	for _, n := range traits.Names() {
		for name := range traits.Of(n).Boundary.Other {
			if !slices.ContainsFunc(checks, func(c check) bool { return c.name == name }) {
				t.Errorf("%s: there is no protection %q", n, name)
			}
		}
	}
}

// TestTextEscapes: names of processes and paths of mounts are the jail's.
func TestTextEscapes(t *testing.T) {
	d := goodDemands()
	s := goodSeen(d)
	s.processes[1].name = "x\x1b[2J\n  holds    seccomp"
	s.processes[1].seccomp = 0
	s.addMounts("90 1 0:99 / /t\\033]0;x\\007 rw - tmpfs t rw\n")
	d.report.Add(report.Change{Kind: report.Denied, Field: "mounts[\x1b[31m]", Why: "a\nb"})
	var b bytes.Buffer
	if err := judge(d, s).Text(&b); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(b.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
		t.Errorf("a control character at %d of %q", i, b.String())
	}
	for _, want := range []string{`BROKEN   seccomp `, `x\x1b[2J\x0a  holds`, `/t\x1b]0;x\x07`, `mounts[\x1b[31m]`, "BROKEN: 2 of "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}
