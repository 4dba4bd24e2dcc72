package harden

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
)

// gen makes specs that somebody would write who wants out: from one that an
// engine wrote, by changes at random places with values that are at, past or
// around what is allowed.
type gen struct{ *rand.Rand }

func newGen(seed uint64) gen { return gen{rand.New(rand.NewPCG(seed, 7))} }

func (g gen) one(s ...string) string { return s[g.IntN(len(s))] }

// maybe is true once in n times.
func (g gen) maybe(n int) bool { return g.IntN(n) == 0 }

func (g gen) i64() int64 {
	v := []int64{-1, 0, 1, 2, 63, 1000, 4096, 65536, 100000, 1 << 20, 1 << 28, 1 << 32, 1 << 40, math.MaxInt64, math.MinInt64}
	return v[g.IntN(len(v))]
}

func (g gen) u64() uint64 { return uint64(g.i64()) }
func (g gen) u32() uint32 {
	v := []uint32{0, 1, 5, 1000, 65534, 65535, 65536, math.MaxUint32}
	return v[g.IntN(len(v))]
}

// opt is a pointer, or nil.
func opt[T any](g gen, v T) *T {
	if g.maybe(4) {
		return nil
	}
	return &v
}

func (g gen) policy() policy.Policy {
	p := policy.Default()
	p.Binds.SetID = g.one(policy.SetIDReport, policy.SetIDRefuse)
	p.Process.Environment = !g.maybe(4)
	if g.maybe(3) {
		p.Process.Capabilities = policy.Grantable()[g.IntN(3):]
	}
	p.Binds.Root = g.one(policy.RootRefuse, policy.RootNobody, policy.RootAllow)
	if g.maybe(2) {
		p.Limits.Pids = []int64{0, 1, 100, 1 << 22}[g.IntN(4)]
		p.Limits.Memory = []policy.Size{0, 1, 1 << 28, 1 << 50}[g.IntN(4)]
		p.Limits.Swap = []policy.Size{0, 1 << 20, 1 << 50}[g.IntN(3)]
		p.Limits.CPUs = []float64{0, 0.001, 0.5, 64, 65536}[g.IntN(5)]
		p.Limits.IORead = []policy.Size{0, 1, 1 << 20}[g.IntN(3)]
		p.Limits.IOWrite = []policy.Size{0, 1, 1 << 20}[g.IntN(3)]
		p.Limits.Sockets = []policy.Size{0, 1 << 20, 1 << 30}[g.IntN(3)]
		p.Limits.NoFile = []uint64{0, 64, 1 << 30}[g.IntN(3)]
		p.Limits.MemLock = []policy.Size{0, 1 << 16}[g.IntN(2)]
		p.Tmpfs = policy.Tmpfs{Size: []policy.Size{1, 4096, 1 << 30}[g.IntN(3)], Inodes: 1 + g.Int64N(1<<20)}
		p.Tmpfs.Max = []policy.Size{0, p.Tmpfs.Size, 2 * p.Tmpfs.Size}[g.IntN(3)]
		p.Root = policy.Root{Size: 1 << g.IntN(40), Inodes: 1 << g.IntN(30)}
	}
	if g.maybe(3) {
		p.Devices.Allow = []string{"/dev/fuse", "/dev/kvm", "/dev/null", "/dev/a/b"}
		p.Binds.Allow = []string{"/srv", "/run/allowed.sock"}
	}
	if g.maybe(3) {
		p.Seccomp = policy.Seccomp{Profile: "strict", OnViolation: "kill"}
	}
	if g.maybe(6) {
		p.OnLoosen = policy.LoosenRefuse
	}
	p.AppArmor.Required = g.maybe(8)
	if g.maybe(3) {
		p.Network.Mode = policy.NetworkEngine
	}
	if g.maybe(6) {
		p.Userns.Map = policy.MapNobody
	}
	return p
}

func (g gen) facts(s *specs.Spec, pol policy.Policy) Facts {
	f := testFacts(s)
	f.IDs = pol.Userns.Block(g.IntN(pol.Userns.Pool.Blocks()))
	if g.maybe(8) {
		m, err := idmap.ForEngine(pol.Userns.Pool, []specs.LinuxIDMapping{{HostID: 100000, Size: 2000}}, []specs.LinuxIDMapping{{HostID: 100000, Size: 2000}})
		if err == nil {
			f.IDs = m
		}
	}
	yes := func() bool { return !g.maybe(4) }
	f.Host.Cgroup = hostfacts.Cgroup{V2: yes(), Pids: yes(), Memory: yes(), Swap: yes(), CPU: yes(), IO: yes(), Sockets: yes()}
	f.Host.AppArmor, f.Host.SELinux, f.Host.TimeNS = yes(), g.maybe(3), yes()
	if f.Host.SELinux && yes() {
		f.Host.ProcessLabel, f.Host.FileLabel = processLabel, fileLabel
	}
	f.Host.OOMScoreAdj = []int{-1000, -1, 0, 500}[g.IntN(4)]
	f.Host.MemTotal = []int64{0, 1 << 30, 1 << 36}[g.IntN(3)]
	f.Nodes = map[string]Node{"/dev/fuse": {"c", 10, 229}, "/dev/kvm": {"c", 10, 232}, "/dev/a/b": {"b", 8, 0}}
	for i := range f.Sources {
		if f.Sources[i] != nil && g.maybe(6) {
			f.Sources[i] = g.source(f.Sources[i])
		}
	}
	if g.maybe(3) {
		f.Owner = NamedOwner{User: &plan.User{UID: g.u32(), GID: g.u32()}, By: "somebody", Ignored: []policy.Ignored{{Name: "x", Value: "y", Why: "z"}}}
	}
	f.Joins = map[specs.LinuxNamespaceType]Join{}
	if s.Linux != nil {
		for _, n := range s.Linux.Namespaces {
			if strings.HasPrefix(n.Path, "/proc/7/") {
				f.Joins[n.Type] = Join{Jail: "seven", UserNS: "/proc/7/ns/user", Mode: policy.NetworkNone, Capabilities: policy.Grantable()[:g.IntN(3)]}
			} else if strings.HasPrefix(n.Path, "/proc/8/") {
				f.Joins[n.Type] = Join{Jail: "eight", UserNS: "/proc/8/ns/user", Mode: g.one(policy.NetworkModes...)}
			} else if strings.HasPrefix(n.Path, "/run/netns/") && n.Type == "network" {
				f.Joins[n.Type] = Join{Pinned: true}
			}
		}
	}
	if g.maybe(8) {
		f.Unknown = []string{"linux.future"}
	}
	return f
}

// podUID is the id of the pod that a container is in.
const podUID = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"

func (g gen) source(f *bindsource.Fact) *bindsource.Fact {
	if g.maybe(8) {
		return nil
	}
	c := *f
	switch g.IntN(8) {
	case 0:
		c.Kind = []bindsource.Kind{bindsource.Socket, bindsource.Device, bindsource.Pipe, bindsource.File, bindsource.Dir}[g.IntN(5)]
	case 1:
		c.Link = "/home/dev/link"
	case 2:
		c.Storage = "/var/lib/docker"
	case 3:
		c.Also = g.one("/etc", "/home/dev/x", "/")
		if g.maybe(2) {
			c.Also, c.Below = "", []string{"/root"}
		}
	case 4:
		c.Path = g.one("/", "/etc/shadow", "/srv/x", "/home", "/home/x", "/usr/lib", "/run/allowed.sock", "/dev/shm", "/proc", "/sys", "/var/lib/x", "/root/x", "/root/.ssh", "/home/dev/.ssh/x")
		c.System = strings.HasPrefix(c.Path, "/usr")
	case 5:
		c.UID, c.GID = g.u32(), g.u32()
	case 6:
		c.Room = g.i64()
		if g.maybe(2) {
			c.SetID, c.SetIDGaveUp = []string{"su"}, g.maybe(2)
		}
		c.HostPath, c.Rootless = g.maybe(2), g.maybe(2)
		if g.maybe(2) {
			c.Path, c.Also = g.one("/etc/localtime", "/usr/share/zoneinfo/UTC", "/etc/ssl/certs", "/root/.gitconfig"), g.one("", "", "/etc", "/root")
			c.Public = []bindsource.Public{bindsource.PublicFile, bindsource.PublicDir, bindsource.PublicUsers, bindsource.PublicGit}[g.IntN(4)]
		}
	case 7:
		c.Role = []bindsource.Role{bindsource.Plain, bindsource.Injected, bindsource.Volume, bindsource.Pod}[g.IntN(4)]
		c.New, c.Secret = g.maybe(2), c.Role == bindsource.Injected && g.maybe(2)
		if c.Role == bindsource.Pod {
			c.Pod = podUID
			c.Path = "/var/lib/kubelet/pods/" + podUID + "/volumes/kubernetes.io~empty-dir/x"
			c.Also = g.one("", "", "/etc", "/srv/x", "/var/lib/kubelet/pods/"+podUID+"/volumes/kubernetes.io~secret/y", "/var/lib/kubelet/pods/other/volumes/a~b/c")
		}
	}
	return &c
}

func (g gen) options() []string {
	var out []string
	for range g.IntN(6) {
		out = append(out, g.one(
			"ro", "rw", "rro", "rrw", "nosuid", "suid", "rsuid", "nodev", "dev", "rdev", "noexec", "exec", "rexec", "rnoexec", "bind", "rbind", "private", "rprivate",
			"shared", "rshared", "slave", "rslave", "unbindable", "remount", "idmap", "ridmap", "defaults", "strictatime", "relatime", "mand", "silent",
			"size=1k", "size=100%", "size=5%", "size=99999999999999999999", "size=0x10000000000", "size=-1", "size=", "size=1T", "size=64m,size=1T", "nr_blocks=99999999", "nr_inodes=0", "nr_inodes=5",
			"mode=755", "mode=1777", "mode=6777", "mode=x", "mode=0755,size=1T", "uid=0", "uid=65536", "gid=5", "gid=4294967296", "huge=always", "noswap", "tmpcopyup",
			"newinstance", "ptmxmode=0666", "ptmxmode=7777", "max=99999", "max=5", "hidepid=2", "hidepid=0", "hidepid=2,gid=0", "subset=pid", "context=system_u:object_r:etc_t:s0",
			"lowerdir=/etc", "fd=3", "foo", "foo=bar", "", ",", "=", "ro,rw", "NOSUID", "copy-symlink", "src-nofollow", "X-mount.mkdir",
		))
	}
	return out
}

func (g gen) mount() specs.Mount {
	m := specs.Mount{
		Destination: g.one("/proc", "/proc/", "/proc/sys", "/proc/stat", "/proc/../dev", "/sys", "/sys/", "/sys/fs/cgroup", "/sys/kernel", "/sys/devices/system/cpu", "/dev", "/dev/", "/dev/null", "/dev/pts", "/dev/pts/0", "/dev/shm", "/dev/mqueue", "/dev/x",
			"/", "//", "", ".", "work", "/work", "/work/../proc", "/a/b", "/etc/hosts", "/run", "/tmp", "/dev/console", "/proc\x00/x", "/"+strings.Repeat("x", 5000)),
		Type:    g.one("", "bind", "none", "tmpfs", "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "overlay", "ext4", "nfs", "fuse", "bpf", "debugfs", "TMPFS", "rbind"),
		Source:  g.one("", "tmpfs", "proc", "/", "/etc", "/home/dev/project", "/home/dev/file", "/usr/share", "/dev/shm", "/proc", "/sys", "/sys/devices/system/cpu", "/sys/fs/cgroup", "/var/run/docker.sock", "/var/lib/docker/volumes/v/_data", "/var/lib/docker/containers/"+id+"/hosts", "/var/lib/docker/containers/"+id+"/mounts/shm", "/srv/x"),
		Options: g.options(),
	}
	if g.maybe(3) {
		m.Options = append(m.Options, g.one("bind", "rbind"))
	}
	if g.maybe(10) {
		m.UIDMappings = []specs.LinuxIDMapping{{HostID: 0, Size: 65536}}
	}
	return m
}

// A mutation changes one thing.
type mutation func(g gen, s *specs.Spec)

func processOf(s *specs.Spec) *specs.Process {
	if s.Process == nil {
		s.Process = &specs.Process{Args: []string{"sh"}, Cwd: "/"}
	}
	return s.Process
}

func linuxOf(s *specs.Spec) *specs.Linux {
	if s.Linux == nil {
		s.Linux = &specs.Linux{}
	}
	return s.Linux
}

func resourcesOf(s *specs.Spec) *specs.LinuxResources {
	l := linuxOf(s)
	if l.Resources == nil {
		l.Resources = &specs.LinuxResources{}
	}
	return l.Resources
}

var mutations = []mutation{
	func(g gen, s *specs.Spec) { // a mount more
		s.Mounts = append(s.Mounts, g.mount())
	},
	func(g gen, s *specs.Spec) { // options of a mount
		if len(s.Mounts) > 0 {
			m := &s.Mounts[g.IntN(len(s.Mounts))]
			m.Options = append(slices.Clone(m.Options), g.options()...)
		}
	},
	func(g gen, s *specs.Spec) { // a bind mount that may pass
		s.Mounts = append(s.Mounts, specs.Mount{Destination: g.one("/work", "/data", "/dev/shm", "/x/y"), Type: g.one("bind", "none", ""), Source: g.one("/home/dev/project", "/usr/share", "/var/lib/docker/volumes/v/_data"), Options: append(g.options(), g.one("bind", "rbind"))})
	},
	func(g gen, s *specs.Spec) { // mounts in another order
		if len(s.Mounts) > 1 && g.maybe(4) {
			g.Shuffle(len(s.Mounts), func(i, j int) { s.Mounts[i], s.Mounts[j] = s.Mounts[j], s.Mounts[i] })
		}
	},
	func(g gen, s *specs.Spec) { // a mount less
		if len(s.Mounts) > 2 && g.maybe(4) {
			i := g.IntN(len(s.Mounts))
			s.Mounts = slices.Delete(s.Mounts, i, i+1)
		}
	},
	func(g gen, s *specs.Spec) { // namespaces
		l := linuxOf(s)
		kinds := []specs.LinuxNamespaceType{"pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time"}
		switch k := kinds[g.IntN(len(kinds))]; g.IntN(5) {
		case 0:
			l.Namespaces = slices.DeleteFunc(slices.Clone(l.Namespaces), func(n specs.LinuxNamespace) bool { return n.Type == k })
		case 1, 2:
			l.Namespaces = slices.DeleteFunc(slices.Clone(l.Namespaces), func(n specs.LinuxNamespace) bool { return n.Type == k })
			l.Namespaces = append(l.Namespaces, specs.LinuxNamespace{Type: k, Path: g.one("", "/proc/1/ns/", "/proc/7/ns/", "/proc/7/ns/", "/proc/8/ns/", "/run/netns/") + string(k)})
		case 3:
			if g.maybe(3) {
				l.Namespaces = append(l.Namespaces, specs.LinuxNamespace{Type: k})
			}
		case 4:
			if g.maybe(5) {
				l.Namespaces = append(l.Namespaces, specs.LinuxNamespace{Type: specs.LinuxNamespaceType(g.one("", "net", "PID"))})
			}
		}
	},
	func(g gen, s *specs.Spec) {
		linuxOf(s).UIDMappings = []specs.LinuxIDMapping{{HostID: g.u32(), Size: g.u32()}}
		linuxOf(s).GIDMappings = []specs.LinuxIDMapping{{HostID: g.u32(), Size: g.u32()}}
	},
	func(g gen, s *specs.Spec) {
		linuxOf(s).TimeOffsets = map[string]specs.LinuxTimeOffset{g.one("boottime", "monotonic", "x"): {Secs: g.i64(), Nanosecs: g.u32()}}
	},
	func(g gen, s *specs.Spec) {
		processOf(s).User = specs.User{UID: g.u32() % 70000, GID: g.u32() % 70000, AdditionalGids: []uint32{g.u32(), g.u32()}, Umask: opt(g, g.u32())}
	},
	func(g gen, s *specs.Spec) {
		all := []string{"CAP_SYS_ADMIN", "CAP_NET_RAW", "CAP_CHOWN", "cap_sys_admin", "ALL", ""}
		processOf(s).Capabilities = opt(g, specs.LinuxCapabilities{Bounding: all[:g.IntN(6)], Effective: all[:g.IntN(6)], Permitted: all[:g.IntN(6)], Inheritable: all[:g.IntN(6)], Ambient: all[:g.IntN(6)]})
	},
	func(g gen, s *specs.Spec) { processOf(s).NoNewPrivileges = g.maybe(2) },
	func(g gen, s *specs.Spec) {
		processOf(s).ApparmorProfile = g.one("", "unconfined", "docker-default", "custom", "agentjail-default", "agentjail-default//&unconfined", "x//&agentjail-default", "containers-default-0.50.1", "agentjail-defaultx")
	},
	func(g gen, s *specs.Spec) {
		processOf(s).SelinuxLabel = g.one("", "system_u:system_r:container_t:s0:c1,c2", "system_u:system_r:spc_t:s0", "system_u:system_r:container_t:s0", "system_u:system_r:container_t:s0:c0.c1023", "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023", "container_t", ":::")
		linuxOf(s).MountLabel = g.one("", "system_u:object_r:container_file_t:s0:c1,c2")
	},
	func(g gen, s *specs.Spec) {
		p := processOf(s)
		p.OOMScoreAdj = opt(g, []int{-1000, -1, 0, 1, 1000, 5000}[g.IntN(6)])
		p.Scheduler = opt(g, specs.Scheduler{Policy: specs.LinuxSchedulerPolicy(g.one("", "SCHED_OTHER", "SCHED_FIFO", "SCHED_RR", "SCHED_DEADLINE", "SCHED_BATCH", "SCHED_IDLE", "sched_fifo")), Nice: int32(g.IntN(45) - 22), Priority: int32(g.IntN(3)), Runtime: g.u64()})
		if p.Scheduler != nil && g.maybe(2) {
			p.Scheduler.Priority, p.Scheduler.Runtime = 0, 0
		}
		p.IOPriority = opt(g, specs.LinuxIOPriority{Class: specs.IOPriorityClass(g.one("IOPRIO_CLASS_RT", "IOPRIO_CLASS_BE", "IOPRIO_CLASS_IDLE", "")), Priority: g.IntN(9) - 1})
		p.ExecCPUAffinity = opt(g, specs.CPUAffinity{Initial: "0-7", Final: "0"})
	},
	func(g gen, s *specs.Spec) {
		p := processOf(s)
		p.Rlimits = append(slices.Clone(p.Rlimits), specs.POSIXRlimit{
			Type: g.one("RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_CORE", "RLIMIT_MEMLOCK", "RLIMIT_AS", "RLIMIT_STACK", "RLIMIT_RTPRIO", "RLIMIT_NICE", "RLIMIT_SIGPENDING", "RLIMIT_MSGQUEUE", "RLIMIT_NOFILE"), Hard: g.u64(), Soft: g.u64(),
		})
		if g.maybe(10) {
			p.Rlimits = append(p.Rlimits, specs.POSIXRlimit{Type: g.one("", "NOFILE", "rlimit_nofile")})
		}
	},
	func(g gen, s *specs.Spec) {
		processOf(s).Cwd = g.one("/", "/work", "/", "/proc/self/fd/7", "/proc", "/proc/../work", "/x/../proc/1", "", "rel", "//proc/1", "/procx", "/dev/fd/7")
	},
	func(g gen, s *specs.Spec) { // environment and arguments
		processOf(s).Env = append(slices.Clone(processOf(s).Env), g.env())
	},
	func(g gen, s *specs.Spec) { s.Annotations = g.annotate(s.Annotations) },
	func(g gen, s *specs.Spec) {
		h := []specs.Hook{{Path: "/bin/sh", Args: []string{"sh", "-c", "id"}}}
		s.Hooks = opt(g, specs.Hooks{CreateRuntime: h, CreateContainer: h, StartContainer: h, Poststart: h, Poststop: h})
	},
	func(g gen, s *specs.Spec) {
		m := linuxOf(s).Sysctl
		out := map[string]string{}
		maps.Copy(out, m)
		out[g.one("kernel.core_pattern", "kernel/core_pattern", "net.ipv4.ip_forward", "net/ipv4/ip_forward", "net.ipv4.conf.all.route_localnet", "net.core.somaxconn", "net/core/somaxconn", "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
			"net.ipv4.tcp_syncookies", "net.../../kernel.core_pattern", "net./../kernel/core_pattern", "kernel.shmmax", "kernel.msgmax", "kernel.msgmax.x", "fs.mqueue.msg_max", "fs.mqueue", "kernel.domainname", "kernel.hostname", "vm.overcommit_memory", "user.max_user_namespaces", "", ".", "net.", "fs.mqueue./x")] = g.one("0", "1", "|/bin/sh")
		linuxOf(s).Sysctl = out
	},
	func(g gen, s *specs.Spec) { resourcesOf(s).Pids = &specs.LinuxPids{Limit: opt(g, g.i64())} },
	func(g gen, s *specs.Spec) {
		resourcesOf(s).Memory = &specs.LinuxMemory{Limit: opt(g, g.i64()), Swap: opt(g, g.i64()), Reservation: opt(g, g.i64()), KernelTCP: opt(g, g.i64()), Swappiness: opt(g, g.u64()), DisableOOMKiller: opt(g, g.maybe(2)), UseHierarchy: opt(g, false), CheckBeforeUpdate: opt(g, g.maybe(2))}
	},
	func(g gen, s *specs.Spec) {
		resourcesOf(s).CPU = &specs.LinuxCPU{Shares: opt(g, g.u64()), Quota: opt(g, g.i64()), Burst: opt(g, g.u64()), Period: opt(g, g.u64()), RealtimeRuntime: opt(g, g.i64()), RealtimePeriod: opt(g, g.u64()), Cpus: g.one("", "0-3"), Mems: g.one("", "0"), Idle: opt(g, g.i64())}
	},
	func(g gen, s *specs.Spec) {
		list := func() []specs.LinuxThrottleDevice {
			var out []specs.LinuxThrottleDevice
			for range g.IntN(3) {
				t := specs.LinuxThrottleDevice{Rate: g.u64()}
				t.Major, t.Minor = 8, int64(g.IntN(2)*16)
				out = append(out, t)
			}
			return out
		}
		resourcesOf(s).BlockIO = &specs.LinuxBlockIO{Weight: opt(g, uint16(g.u32())), ThrottleReadBpsDevice: list(), ThrottleWriteBpsDevice: list(), ThrottleReadIOPSDevice: list(), ThrottleWriteIOPSDevice: list()}
	},
	func(g gen, s *specs.Spec) {
		out := map[string]string{}
		for range 1 + g.IntN(4) {
			out[g.one("pids.max", "memory.max", "memory.swap.max", "memory.high", "memory.low", "memory.min", "cpu.max", "cpu.max.burst", "cpu.weight", "io.max", "io.latency", "cpuset.cpus.partition", "cgroup.kill", "cgroup.procs", "hugetlb.2MB.max", "../x", "hugetlb./../.max", "cpu.uclamp.min", "memory.oom.group", "cpu.idle")] = g.one("max", "0", "1", "-1", "1000", "max 100000", "100000 100000", "999999999 100000", "100 0", "8:0 wbps=max", "8:0 rbps=1 wbps=1", "8:0 rbps=1\n8:0 rbps=max", "99999999999999999999", "9223372036854775807")
		}
		resourcesOf(s).Unified = out
	},
	func(g gen, s *specs.Spec) {
		r := resourcesOf(s)
		r.Network = opt(g, specs.LinuxNetwork{ClassID: opt(g, g.u32())})
		r.HugepageLimits = []specs.LinuxHugepageLimit{{Pagesize: "2MB", Limit: g.u64()}}
		r.Rdma = map[string]specs.LinuxRdma{"mlx": {HcaHandles: opt(g, g.u32())}}
	},
	func(g gen, s *specs.Spec) { // devices
		l := linuxOf(s)
		d := specs.LinuxDevice{Path: g.one("/dev/fuse", "/dev/kvm", "/dev/null", "/dev/sda", "/dev/a/b", "/dev/a/../fuse", "/x", "", "/dev"), Type: g.one("c", "b", "u", "p", "", "a"), Major: []int64{1, 10, 8, -1, 0}[g.IntN(5)], Minor: []int64{229, 232, 0, 3, -1}[g.IntN(5)], FileMode: opt(g, os.FileMode(0o6777)), UID: opt(g, g.u32()), GID: opt(g, g.u32())}
		if g.maybe(2) {
			d.Type, d.Major, d.Minor = "c", 10, 229
		}
		l.Devices = append(slices.Clone(l.Devices), d)
		r := resourcesOf(s)
		r.Devices = append(slices.Clone(r.Devices), specs.LinuxDeviceCgroup{Allow: !g.maybe(4), Type: g.one("", "a", "b", "c"), Major: opt(g, d.Major), Minor: opt(g, d.Minor), Access: g.one("", "r", "rw", "rwm", "m", "w")})
	},
	func(g gen, s *specs.Spec) {
		linuxOf(s).NetDevices = map[string]specs.LinuxNetDevice{"eth0": {Name: "eth1"}}
	},
	func(g gen, s *specs.Spec) {
		rules := []specs.LinuxSyscall{{Names: []string{g.one("io_uring_setup", "read", "mount", "bpf", "clone", "socket")}, Action: specs.LinuxSeccompAction(g.one("SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_NOTIFY", "SCMP_ACT_KILL", "SCMP_ACT_LOG")), Args: []specs.LinuxSeccompArg{{Index: uint(g.IntN(7)), Value: g.u64(), ValueTwo: g.u64(), Op: specs.LinuxSeccompOperator(g.one("SCMP_CMP_EQ", "SCMP_CMP_NE", "SCMP_CMP_MASKED_EQ", "SCMP_CMP_GE", "x"))}}}}
		if g.maybe(2) {
			rules[0].Args = nil
		}
		linuxOf(s).Seccomp = opt(g, specs.LinuxSeccomp{DefaultAction: specs.LinuxSeccompAction(g.one("SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS", "", "SCMP_ACT_TRACE", "x")), Architectures: []specs.Arch{"SCMP_ARCH_X86"}, Flags: []specs.LinuxSeccompFlag{"SECCOMP_FILTER_FLAG_SPEC_ALLOW"}, ListenerPath: g.one("", "/run/x"), Syscalls: rules})
	},
	func(g gen, s *specs.Spec) {
		l := linuxOf(s)
		l.RootfsPropagation = g.one("", "shared", "rshared", "slave", "private", "unbindable", "x")
		l.MaskedPaths = [][]string{nil, {}, {"/proc/kcore"}, {"/proc/stat", "x", ""}}[g.IntN(4)]
		l.ReadonlyPaths = [][]string{nil, {}, {"/proc/sys"}, {"/proc/kcore", "/etc"}}[g.IntN(4)]
	},
	func(g gen, s *specs.Spec) {
		linuxOf(s).CgroupsPath = g.one("", "/", "//", "/.", "..", "/docker/../x", "/docker/abc", "system.slice:docker:abc", "a/b", "system.slice:../x:y", "/docker/..")
	},
	func(g gen, s *specs.Spec) {
		l := linuxOf(s)
		l.IntelRdt = opt(g, specs.LinuxIntelRdt{ClosID: "x", Schemata: []string{"L3:0=ffff"}, EnableMonitoring: true})
		l.MemoryPolicy = opt(g, specs.LinuxMemoryPolicy{Mode: "MPOL_BIND", Nodes: "0"})
		l.Personality = opt(g, specs.LinuxPersonality{Domain: specs.LinuxPersonalityDomain(g.one("LINUX", "LINUX32", "")), Flags: [][]specs.LinuxPersonalityFlag{nil, {"READ_IMPLIES_EXEC"}}[g.IntN(2)]})
	},
	func(g gen, s *specs.Spec) {
		s.Hostname, s.Domainname = g.one("", "a", strings.Repeat("h", 65), "a\nb"), g.one("", "d", strings.Repeat("d", 65))
	},
	func(g gen, s *specs.Spec) {
		if s.Root != nil {
			s.Root = &specs.Root{Path: s.Root.Path, Readonly: g.maybe(2)}
		}
		processOf(s).Terminal = g.maybe(2)
	},
	func(g gen, s *specs.Spec) { // what is not a Linux container
		if !g.maybe(10) {
			return
		}
		switch g.IntN(8) {
		case 0:
			s.Process = nil
		case 1:
			s.Root = nil
		case 2:
			s.Linux = nil
		case 3:
			s.Windows = &specs.Windows{}
		case 4:
			s.VM = &specs.VM{}
		case 5:
			s.Process = &specs.Process{}
		case 6:
			s.Mounts = nil
		case 7:
			s.FreeBSD = &specs.FreeBSD{}
		}
	},
}

func (g gen) env() string {
	return g.one("LD_PRELOAD=/x.so", "PATH=", "TAR_OPTIONS=", "ASAN_OPTIONS=detect_leaks=1", "LSAN_OPTIONS=suppressions=x", "RUN_OCI_SECCOMP_RECEIVER=/x", "_LIBCONTAINER_INITPIPE=3", "AGENTJAIL_POLICY=lax", "dev.agentjail.on_loosen=strip", "A", "")
}

func (g gen) annotate(m map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, m)
	for range 1 + g.IntN(4) {
		k := g.one("run.oci.seccomp_bpf_data", "Run.OCI.keep_original_groups", "org.criu.config", "org.systemd.property.MemoryMax", "bundle", "Bundle", "krun.cpus", "module.wasm.image/variant", "io.kubernetes.cri-o.Devices",
			"dev.agentjail.root.size", "dev.agentjail.limits.pids", "dev.agentjail.limits.memory", "dev.agentjail.tmpfs.size", "dev.agentjail.root.inodes", "dev.agentjail.on_loosen", "dev.agentjail.seccomp.profile", "com.example", "")
		// In most cases one that the key can have: a spec with another is refused.
		switch {
		case g.IntN(8) == 0:
			out[k] = g.one("", "0", "-1", "1.5", "unconfined", "true")
		case strings.HasSuffix(k, "on_loosen"):
			out[k] = g.one("strip", "refuse")
		case strings.HasSuffix(k, "seccomp.profile"):
			out[k] = g.one("strict", "default")
		default:
			out[k] = g.one("1", "512", "1048576", "107374182400", "9223372036854775807")
		}
	}
	return out
}

// spec makes one from a base.
func (g gen) spec(base *specs.Spec) *specs.Spec {
	s := clone(base)
	for range g.IntN(8) {
		mutations[g.IntN(len(mutations))](g, s)
	}
	return s
}

func (g gen) String() string { return fmt.Sprint("generator ", g.Uint64()) }
