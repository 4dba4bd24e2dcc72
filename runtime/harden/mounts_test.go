package harden

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

// one hardens a spec with one more mount and returns it, or the refusal.
func one(t *testing.T, m specs.Mount, f *bindsource.Fact, pol policy.Policy) (specs.Mount, *plan.Bind, *report.Report, error) {
	t.Helper()
	s := mount(m)
	facts := testFacts(s)
	if f != nil {
		facts.Sources[2] = f
	}
	res, rep, err := Harden(s, pol, facts)
	if err != nil {
		return m, nil, rep, err
	}
	if !check(t, s, pol, facts) {
		t.Fatal("passed, and does not pass")
	}
	for i := range res.Plan.Binds {
		if res.Plan.Binds[i].Index == 2 {
			return res.Spec.Mounts[2], &res.Plan.Binds[i], rep, nil
		}
	}
	return res.Spec.Mounts[2], nil, rep, nil
}

func TestMountTypes(t *testing.T) {
	for _, c := range []struct {
		at, kind string
		options  string
		want     string // options, "" where it is refused
		says     string
	}{
		{"/proc", "proc", "", "nosuid noexec nodev", ""},
		{"/proc/", "proc", "nosuid exec dev suid hidepid=2 gid=0", "nosuid hidepid=2 noexec nodev", ""},
		{"/proc", "proc", "hidepid=2,gid=0 subset=pid foo rw remount", "subset=pid nosuid noexec nodev", ""},
		{"/x", "proc", "", "", "proc belongs at /proc"},
		{"/sys/fs/cgroup", "cgroup", "ro nosuid", "ro nosuid noexec nodev", ""},
		{"/sys/fs/cgroup", "cgroup2", "rw nsdelegate release_agent=/x", "nosuid noexec nodev ro", ""},
		{"/x", "cgroup", "", "", "cgroup belongs at /sys/fs/cgroup"},
		{"/sys", "sysfs", "ro", "ro nosuid noexec nodev mode=755 size=65536 nr_inodes=64", ""},
		{"/x", "sysfs", "ro", "", "sysfs belongs at /sys"},
		{"/dev/pts", "devpts", "newinstance ptmxmode=0666 mode=0620 gid=5", "newinstance ptmxmode=0666 mode=0620 gid=5 nosuid noexec max=256", ""},
		{"/dev/pts", "devpts", "max=5 gid=65536 uid=x ptmxmode=4666", "nosuid noexec newinstance max=5", ""},
		{"/dev/pts", "devpts", "max=5000", "nosuid noexec newinstance max=256", ""},
		{"/x", "devpts", "", "", "devpts belongs at /dev/pts"},
		{"/dev/mqueue", "mqueue", "", "nosuid noexec nodev", ""},
		{"/x", "mqueue", "", "", "mqueue belongs at /dev/mqueue"},
		{"/x", "tmpfs", "", "nosuid nodev size=268435456 nr_inodes=16384", ""},
		{"/x", "tmpfs", "size=3m exec mode=1777 nr_inodes=5 noswap", "mode=1777 nosuid nodev size=3145728 nr_inodes=5", ""},
		{"/x", "tmpfs", "size=99g nr_inodes=0 huge=always mpol=bind:0", "nosuid nodev size=4294967296 nr_inodes=16384", ""},
		{"/x", "tmpfs", "size=2g nr_inodes=1k", "nosuid nodev size=2147483648 nr_inodes=1024", ""},
		{"/x", "tmpfs", "size=0", "nosuid nodev size=4294967296 nr_inodes=16384", ""},
		{"/x", "tmpfs", "nr_blocks=1k", "nosuid nodev size=4194304 nr_inodes=16384", ""},
		{"/x", "tmpfs", "nr_inodes=99999999 nr_blocks=2", "nosuid nodev size=8192 nr_inodes=16384", ""},
		{"/x", "tmpfs", "mode=2777 uid=0 gid=65536 uid=1000", "uid=0 uid=1000 nosuid nodev size=268435456 nr_inodes=16384", ""},
		{"/x", "tmpfs", "size=1m,size=99g foo,size=99g mode=755,size=99g", "nosuid nodev size=268435456 nr_inodes=16384", ""},
		{"/x", "tmpfs", "suid dev shared rshared remount strictatime tmpcopyup", "strictatime tmpcopyup nosuid nodev size=268435456 nr_inodes=16384", ""},
		{"/dev", "tmpfs", "size=64k dev", "nosuid size=65536 nr_inodes=16384", ""},
		{"/dev/shm", "tmpfs", "size=64k", "nosuid nodev size=65536 nr_inodes=16384", ""},
		{"/dev/null", "tmpfs", "", "", "/dev/null is the jail's own"},
		{"/dev/pts/0", "tmpfs", "", "", "/dev/pts is the jail's own"},
		{"/proc", "tmpfs", "", "", "only the jail's own kernel file system"},
		{"/proc/sys", "tmpfs", "", "", "only the jail's own kernel file system"},
		{"/sys/fs/cgroup", "tmpfs", "", "", "only the jail's own kernel file system"},
		{"/sys/kernel/debug", "debugfs", "", "", `"debugfs" is not for jails`},
		{"/x", "overlay", "lowerdir=/etc", "", `"overlay" is not for jails`},
		{"/x", "ext4", "", "", `"ext4" is not for jails`},
		{"/x", "nfs", "", "", `"nfs" is not for jails`},
		{"/x", "", "", "", `"" is not for jails`},
		{"/x", "none", "", "", `"none" is not for jails`},
		{"/x", "TMPFS", "", "", `"TMPFS" is not for jails`},
		{"/", "tmpfs", "", "", "is the root itself"},
		{"/x/..", "tmpfs", "", "", "is the root itself"},
		{"x", "tmpfs", "", "", "is not an absolute path"},
		{"", "tmpfs", "", "", "is not an absolute path"},
		{"/x\x00", "tmpfs", "", "", "contains a NUL byte"},
		{"/" + strings.Repeat("x", 4096), "tmpfs", "", "", "longer than PATH_MAX"},
	} {
		m, _, _, err := one(t, specs.Mount{Destination: c.at, Type: c.kind, Source: "none", Options: strings.Fields(c.options)}, nil, policy.Default())
		name := fmt.Sprintf("%s at %.20q with %q", c.kind, c.at, c.options)
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, not %q", name, err, c.says)
			}
		} else if got := strings.Join(m.Options, " "); err != nil || got != c.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, got, c.want)
		}
	}
}

// TestTmpfsSizes reads sizes as the kernel does (mm/shmem.c, memparse).
func TestTmpfsSizes(t *testing.T) {
	const mem = 1000 << 20
	for _, c := range []struct {
		opts string
		want int64 // -1 where it cannot be read
	}{
		{"size=0", 0},
		{"size=4096", 4096},
		{"size=64k", 65536},
		{"size=64K", 65536},
		{"size=1m", 1 << 20},
		{"size=2g", 2 << 30},
		{"size=1t", 1 << 40},
		{"size=1p", 1 << 50},
		{"size=1e", 1 << 60},
		{"size=0x10", 16},
		{"size=010", 8},
		{"size=0x1k", 1024},
		{"size=5%", 50 << 20},
		{"size=0%", 0},
		{"size=100%", mem},
		{"size=1k size=2k", 2048},
		{"nr_blocks=2", 8192},
		{"size=1k nr_blocks=2", 1024},
		{"", -1},
		{"size=", -1},
		{"size=k", -1},
		{"size=x", -1},
		{"size=-1", -1},
		{"size=101%", -1},
		{"size=-1%", -1},
		{"size=%", -1},
		{"size=9e", -1},
		{"size=99999999999999999999", -1},
		{"size=1kk", -1},
		{"nr_blocks=x", -1},
		{"nr_blocks=9223372036854775807", -1},
		{"size", -1},
	} {
		got, ok := tmpfsSize(strings.Fields(c.opts), mem)
		if ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%q is %d, %v, not %d", c.opts, got, ok, c.want)
		}
	}
}

func TestBinds(t *testing.T) {
	directory := bindsource.Fact{Path: "/home/dev/project", Kind: bindsource.Dir, UID: 1000, GID: 1000, DiskMajor: 8}
	rooted := bindsource.Fact{Path: "/srv/data", Kind: bindsource.Dir, DiskMajor: 8}
	allow := policy.Default()
	allow.Binds.Allow = []string{"/run/x.sock", "/etc/ssl", "/srv/data"}
	asNobody, asRoot := policy.Default(), policy.Default()
	asNobody.Binds.Root, asRoot.Binds.Root = policy.RootNobody, policy.RootAllow
	enginesNetwork := policy.Default()
	enginesNetwork.Network.Mode = policy.NetworkEngine
	hostPath := directory
	hostPath.HostPath = true
	for _, c := range []struct {
		name    string
		at      string
		kind    string
		options string
		fact    bindsource.Fact
		pol     policy.Policy
		want    string    // options, "" where it is refused
		bind    plan.Bind // without index and source
		says    string
	}{
		{"a project", "/work", "bind", "rbind rprivate", directory, policy.Default(), "rbind rprivate nosuid nodev", plan.Bind{Owner: plan.OwnerDir}, ""},
		{"without submounts", "/work", "bind", "bind", directory, policy.Default(), "bind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir, NonRecursive: true}, ""},
		{"by type alone", "/work", "bind", "", directory, policy.Default(), "nosuid nodev bind rprivate", plan.Bind{Owner: plan.OwnerDir, NonRecursive: true}, ""},
		{"by option alone", "/work", "none", "rbind", directory, policy.Default(), "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir}, ""},
		{"read-only", "/work", "bind", "rbind ro", directory, policy.Default(), "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir, ReadOnly: true}, ""},
		{"recursively read-only", "/work", "bind", "rbind rro", directory, policy.Default(), "rbind rro ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir, ReadOnly: true}, ""},
		{"read-only and writable", "/work", "bind", "rbind ro rw rrw", directory, policy.Default(), "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir, ReadOnly: true}, ""},
		{"noexec", "/work", "bind", "rbind noexec exec", directory, policy.Default(), "rbind noexec nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir, NoExec: true}, ""},
		{"loose options", "/work", "bind", "rbind suid dev rsuid rdev idmap ridmap remount rslave slave copy-symlink foo X-mount.mkdir", directory, policy.Default(), "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir}, ""},
		{"shared", "/work", "bind", "rbind rshared", directory, policy.Default(), "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir}, ""},
		{"root's directory", "/data", "bind", "rbind", rooted, policy.Default(), "", plan.Bind{}, "it belongs to the host's root"},
		{"root's directory, to read", "/data", "bind", "rbind ro", rooted, policy.Default(), "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true}, ""},
		{"root's directory, named by policy", "/data", "bind", "rbind", rooted, allow, "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir}, ""},
		{"root's directory as an unmapped id", "/data", "bind", "rbind", rooted, asNobody, "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerNone}, ""},
		{"root's directory as root", "/data", "bind", "rbind", rooted, asRoot, "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir}, ""},
		{"root's directory as root, to read", "/data", "bind", "rbind ro", rooted, asRoot, "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir, ReadOnly: true}, ""},
		{"a user's directory as an unmapped id", "/data", "bind", "rbind", directory, asNobody, "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir}, ""},
		{"a volume that is root's directory", "/data", "bind", "rbind", bindsource.Fact{Path: "/e/volumes/v/_data", Kind: bindsource.Dir, Role: bindsource.Volume, Also: "/srv/x"}, policy.Default(), "", plan.Bind{}, "it belongs to the host's root"},
		{"a pod author's choice, to write", "/data", "bind", "rbind", hostPath, policy.Default(), "", plan.Bind{}, "a pod's author chose this directory"},
		{"a pod author's choice, to write, as root", "/data", "bind", "rbind", hostPath, asRoot, "", plan.Bind{}, "a pod's author chose this directory"},
		{"a pod author's choice, to read", "/data", "bind", "rbind ro", hostPath, policy.Default(), "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true}, ""},
		{"a volume of the process's own user", "/data", "bind", "rbind", bindsource.Fact{Path: "/v", Kind: bindsource.Dir, Role: bindsource.Volume, UID: 1000}, policy.Default(), "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerSame}, ""},
		{"a user's directory as a volume", "/data", "bind", "rbind", bindsource.Fact{Path: "/v", Kind: bindsource.Dir, Role: bindsource.Volume, UID: 1000, Also: "/home/u/x"}, policy.Default(), "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir}, ""},
		{"a volume of root's that is in use", "/data", "bind", "rbind", bindsource.Fact{Path: "/v", Kind: bindsource.Dir, Role: bindsource.Volume}, policy.Default(), "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerSame}, ""},
		{"a volume of another user", "/data", "bind", "rbind", bindsource.Fact{Path: "/v", Kind: bindsource.Dir, Role: bindsource.Volume, UID: 999, GID: 999}, policy.Default(), "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerSame}, ""},
		{"a new volume", "/data", "bind", "rbind", bindsource.Fact{Path: "/v", Kind: bindsource.Dir, Role: bindsource.Volume, New: true}, policy.Default(), "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerSame, HandOver: true}, ""},
		{"a new volume, to read", "/data", "bind", "rbind ro", bindsource.Fact{Path: "/v", Kind: bindsource.Dir, Role: bindsource.Volume, New: true}, policy.Default(), "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerSame, ReadOnly: true}, ""},
		{"a new volume of another user", "/data", "bind", "rbind", bindsource.Fact{Path: "/v", Kind: bindsource.Dir, Role: bindsource.Volume, UID: 999, New: true}, policy.Default(), "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerSame}, ""},
		{"a new volume of a group", "/data", "bind", "rbind", bindsource.Fact{Path: "/v", Kind: bindsource.Dir, Role: bindsource.Volume, GID: 2000, New: true}, policy.Default(), "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerSame}, ""},
		{"the engine's file", "/etc/hosts", "bind", "rbind rprivate", bindsource.Fact{Path: "/v/hosts", Kind: bindsource.File, Role: bindsource.Injected}, policy.Default(), "rbind rprivate nosuid nodev", plan.Bind{Owner: plan.OwnerNone, Copy: true, Current: true, OwnName: true}, ""},
		{"the same, read-only", "/etc/hosts", "bind", "rbind rprivate ro", bindsource.Fact{Path: "/v/hosts", Kind: bindsource.File, Role: bindsource.Injected}, policy.Default(), "rbind rprivate ro nosuid nodev", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true, Copy: true, Current: true, OwnName: true}, ""},
		{"the same, with the engine's network", "/etc/hosts", "bind", "rbind rprivate", bindsource.Fact{Path: "/v/hosts", Kind: bindsource.File, Role: bindsource.Injected}, enginesNetwork, "rbind rprivate nosuid nodev", plan.Bind{Owner: plan.OwnerNone, Copy: true, Current: true}, ""},
		{"the same, read-only, with the engine's network", "/etc/hosts", "bind", "rbind rprivate ro", bindsource.Fact{Path: "/v/hosts", Kind: bindsource.File, Role: bindsource.Injected}, enginesNetwork, "rbind rprivate ro nosuid nodev", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true}, ""},
		{"the resolver's file, with the engine's network", "/etc/resolv.conf", "bind", "rbind rprivate", bindsource.Fact{Path: "/v/resolv.conf", Kind: bindsource.File, Role: bindsource.Injected}, enginesNetwork, "rbind rprivate ro nosuid nodev", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true}, ""},
		{"another file of the engine's", "/etc/passwd", "bind", "rbind rprivate", bindsource.Fact{Path: "/v/passwd", Kind: bindsource.File, Role: bindsource.Injected}, policy.Default(), "rbind rprivate nosuid nodev", plan.Bind{Owner: plan.OwnerNone, Copy: true, Current: true}, ""},
		{"the same, read-only", "/etc/passwd", "bind", "rbind rprivate ro", bindsource.Fact{Path: "/v/passwd", Kind: bindsource.File, Role: bindsource.Injected}, policy.Default(), "rbind rprivate ro nosuid nodev", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true}, ""},
		{"a secret", "/run/secrets/s", "bind", "rbind rprivate", bindsource.Fact{Path: "/v/mounts/secrets/s", Kind: bindsource.File, Role: bindsource.Injected, Secret: true, UID: 1000}, policy.Default(), "rbind rprivate ro nosuid nodev", plan.Bind{Owner: plan.OwnerSame, ReadOnly: true}, ""},
		{"the engine's shared memory", "/dev/shm", "bind", "rbind", bindsource.Fact{Path: "/v/shm", Kind: bindsource.Dir, Role: bindsource.Injected, Room: 64 << 20}, policy.Default(), "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerNone}, ""},
		{"the host's programs, to read", "/ro", "bind", "rbind ro", bindsource.Fact{Path: "/usr/share", Kind: bindsource.Dir, System: true}, policy.Default(), "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true}, ""},
		{"the host's programs, to write", "/rw", "bind", "rbind", bindsource.Fact{Path: "/usr/share", Kind: bindsource.Dir, System: true}, policy.Default(), "", plan.Bind{}, "the host runs programs from it"},
		{"a file over one of procfs, as lxcfs does", "/proc/meminfo", "bind", "bind ro", bindsource.Fact{Path: "/srv/lxcfs/meminfo", Kind: bindsource.File}, policy.Default(), "bind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true, NonRecursive: true}, ""},
		{"a directory over one of procfs", "/proc/meminfo", "bind", "bind ro", directory, policy.Default(), "", plan.Bind{}, "kernel file system"},
		{"a file over another of procfs", "/proc/sys/kernel/core_pattern", "bind", "bind", bindsource.Fact{Path: "/srv/x", Kind: bindsource.File}, policy.Default(), "", plan.Bind{}, "kernel file system"},
		{"over procfs", "/proc", "bind", "bind", directory, policy.Default(), "", plan.Bind{}, "kernel file system"},
		{"below sysfs", "/sys/kernel", "bind", "bind", directory, policy.Default(), "", plan.Bind{}, "kernel file system"},
		{"over /dev", "/dev", "bind", "bind", directory, policy.Default(), "", plan.Bind{}, "the jail's device nodes"},
		{"over /dev by a detour", "/x/../dev//", "bind", "bind", directory, policy.Default(), "", plan.Bind{}, "the jail's device nodes"},
		{"over /dev/null", "/dev/null", "bind", "bind", bindsource.Fact{Path: "/srv/x", Kind: bindsource.File}, policy.Default(), "", plan.Bind{}, "/dev/null is the jail's own"},
		{"over the console", "/dev/console", "bind", "bind", bindsource.Fact{Path: "/srv/x", Kind: bindsource.File}, policy.Default(), "", plan.Bind{}, "/dev/console is the jail's own"},
		{"below /dev", "/dev/termination-log", "bind", "bind", bindsource.Fact{Path: "/srv/x", Kind: bindsource.File, UID: 1000}, policy.Default(), "bind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir, NonRecursive: true}, ""},
		{"a socket", "/s", "bind", "bind", bindsource.Fact{Path: "/home/x.sock", Kind: bindsource.Socket}, policy.Default(), "", plan.Bind{}, "a Unix socket lets"},
		{"an allowed socket", "/s", "bind", "bind", bindsource.Fact{Path: "/run/x.sock", Kind: bindsource.Socket}, allow, "bind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir, NonRecursive: true}, ""},
		{"an allowed directory", "/etc/ssl", "bind", "bind ro", bindsource.Fact{Path: "/etc/ssl/certs", Kind: bindsource.Dir}, allow, "bind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir, NonRecursive: true, ReadOnly: true}, ""},
		{"the host's name tables for its network", "/etc/hosts", "bind", "rbind ro", bindsource.Fact{Path: "/etc/hosts", Kind: bindsource.File}, policy.Default(), "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true}, ""},
		{"the same, writable", "/etc/hosts", "bind", "rbind", bindsource.Fact{Path: "/etc/hosts", Kind: bindsource.File}, policy.Default(), "", plan.Bind{}, "host's configuration"},
		{"the host's time zone", "/etc/localtime", "bind", "rbind ro", bindsource.Fact{Path: "/usr/share/zoneinfo/UTC", Kind: bindsource.File, System: true, Link: "/etc/localtime", Public: bindsource.PublicFile}, policy.Default(), "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true, Copy: true}, ""},
		{"the same for a pod", "/etc/localtime", "bind", "rbind ro", bindsource.Fact{Path: "/etc/timezone", Kind: bindsource.File, HostPath: true, Public: bindsource.PublicFile}, policy.Default(), "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true, Copy: true}, ""},
		{"certificates, writable", "/etc/ssl/certs", "bind", "rbind", bindsource.Fact{Path: "/etc/ssl/certs", Kind: bindsource.Dir, Public: bindsource.PublicDir}, policy.Default(), "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true}, ""},
		{"the host's users, writable", "/etc/passwd", "bind", "rbind", bindsource.Fact{Path: "/etc/passwd", Kind: bindsource.File, Public: bindsource.PublicUsers}, policy.Default(), "rbind ro nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerNone, ReadOnly: true, Copy: true}, ""},
		{"git's settings with a credential", "/root/.gitconfig", "bind", "rbind ro", bindsource.Fact{Path: "/root/.gitconfig", Kind: bindsource.File, Withheld: "the setting x looks like a credential"}, policy.Default(), "", plan.Bind{}, "no copy is made: the setting x looks like a credential"},
		{"a time zone that is mounted from elsewhere", "/etc/localtime", "bind", "rbind ro", bindsource.Fact{Path: "/etc/localtime", Also: "/root/x", Kind: bindsource.File, Public: bindsource.PublicFile}, policy.Default(), "", plan.Bind{}, "host root's home"},
		{"a time zone that policy allows", "/etc/localtime", "bind", "rbind", bindsource.Fact{Path: "/etc/ssl/certs", Kind: bindsource.File, Public: bindsource.PublicFile}, allow, "rbind nosuid nodev rprivate", plan.Bind{Owner: plan.OwnerDir}, ""},
		{"another of the host's tables", "/etc/shadow", "bind", "rbind ro", bindsource.Fact{Path: "/etc/shadow", Kind: bindsource.File}, policy.Default(), "", plan.Bind{}, "host's configuration"},
	} {
		from := c.fact.Path
		m, b, rep, err := one(t, specs.Mount{Destination: c.at, Type: c.kind, Source: from, Options: strings.Fields(c.options)}, &c.fact, c.pol)
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.at) {
				t.Errorf("%s: %v, not %q", c.name, err, c.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := strings.Join(m.Options, " "); got != c.want || m.Type != "bind" || m.Source != from || b == nil {
			t.Errorf("%s\ngot  %s %s\nwant bind %s", c.name, m.Type, got, c.want)
			continue
		}
		want := c.bind
		want.Index, want.Source, want.Storage = 2, from, plan.StorageDirect
		// What the host runs of it is kept from the jail, also what an engine's volume
		// does not have yet only where somebody chose the directory.
		want.Protect = c.fact.Kind == bindsource.Dir && c.fact.Role != bindsource.Injected && !want.ReadOnly
		want.Absent = want.Protect && c.fact.Role == bindsource.Plain
		// The kernel keeps its sockets and pipes from the jail where the mount is read-only and needs no groups.
		endpoints := c.fact.Kind == bindsource.Dir && c.fact.Role != bindsource.Injected
		want.NoWrite = endpoints && want.ReadOnly && want.Owner != plan.OwnerSame
		want.Endpoints = endpoints && !want.NoWrite
		if *b != want {
			t.Errorf("%s: planned %+v, not %+v", c.name, *b, want)
		}
		if lost := strings.Contains(c.options, "shared") || c.fact.Public != "" && want.ReadOnly && !strings.Contains(c.options, "ro"); lost != (len(find(rep, report.Denied, "mounts*")) == 1) {
			t.Errorf("%s: lost %v", c.name, rep.Of(report.Denied))
		}
	}
	// Nothing is known of a source: then nothing is mounted.
	s := mount(specs.Mount{Destination: "/x", Type: "bind", Source: "/home/x", Options: []string{"rbind"}})
	f := testFacts(s)
	f.Sources = f.Sources[:2]
	contain(t, "a source that was not opened", refused(t, s, policy.Default(), f), "nothing is known of its source")
	f.Sources = append(f.Sources, nil)
	contain(t, "a source that was not opened", refused(t, s, policy.Default(), f), "nothing is known of its source")
	contain(t, "no source", refused(t, mount(specs.Mount{Destination: "/x", Type: "bind", Options: []string{"rbind"}}), policy.Default(), testFacts(s)), "a bind mount without a source")
	// The real path shows when the name is another.
	_, _, _, err := one(t, specs.Mount{Destination: "/x", Type: "bind", Source: "/var/run/docker.sock"}, &bindsource.Fact{Path: "/run/docker.sock", Kind: bindsource.Socket}, policy.Default())
	contain(t, "a link to a socket", fmt.Sprint(err), "/var/run/docker.sock (/run/docker.sock)")
}

// TestSetID: programs that run as a directory's owner are reported or refused,
// where the jail could change them.
func TestSetID(t *testing.T) {
	refuse := policy.Default()
	refuse.Binds.SetID = policy.SetIDRefuse
	with := bindsource.Fact{Path: "/data/p", Kind: bindsource.Dir, UID: 33, SetID: []string{"bin/su"}}
	at := func(options ...string) specs.Mount {
		return specs.Mount{Destination: "/w", Type: "bind", Source: "/data/p", Options: append(options, "rbind")}
	}
	_, _, rep, err := one(t, at(), &with, policy.Default())
	if found := find(rep, report.Missing, "mounts[/w]"); err != nil || len(found) != 1 || !strings.Contains(found[0].Why, "bin/su (remedy: chmod") {
		t.Errorf("%v %+v", err, rep)
	}
	_, _, _, err = one(t, at(), &with, refuse)
	contain(t, "policy refuses", fmt.Sprint(err), "whose content the jail could change: bin/su")
	if _, _, _, err = one(t, at("ro"), &with, refuse); err != nil {
		t.Errorf("read-only: %v", err)
	}
	gaveUp := bindsource.Fact{Path: "/data/p", Kind: bindsource.Dir, UID: 33, SetIDGaveUp: true}
	_, _, rep, err = one(t, at(), &gaveUp, policy.Default())
	if found := find(rep, report.Missing, "mounts[/w]"); err != nil || len(found) != 1 || !strings.Contains(found[0].Why, "not all of it was searched") {
		t.Errorf("a search that met its bound: %v %+v", err, rep)
	}
	_, _, _, err = one(t, at(), &gaveUp, refuse)
	contain(t, "policy refuses, and the search met its bound", fmt.Sprint(err), "too much to be searched as a whole")
}

// TestHostsOwn: what engines mount when a container is to share a namespace
// with the host becomes the jail's own, and the loss is named.
func TestHostsOwn(t *testing.T) {
	for at, kind := range map[string]string{"/proc": "proc", "/sys": "tmpfs", "/sys/fs/cgroup": "cgroup", "/dev/pts": "devpts", "/dev/shm": "tmpfs", "/dev/mqueue": "mqueue"} {
		for _, name := range []string{at, at + "/", "/elsewhere"} {
			m, b, rep, err := one(t, specs.Mount{Destination: at, Type: "bind", Source: name, Options: []string{"rbind", "rw"}}, &bindsource.Fact{Path: at, Kind: bindsource.Dir}, policy.Default())
			if err != nil || m.Type != kind || b != nil || len(find(rep, report.Denied, "mounts["+at+"]")) != 1 {
				t.Errorf("%s of %s: %v %+v %v", at, name, err, m, rep.Of(report.Denied))
			}
			if slices.Contains(m.Options, "rbind") || kind == "tmpfs" && !strings.Contains(strings.Join(m.Options, " "), "size=") {
				t.Errorf("%s: %q", at, m.Options)
			}
		}
	}
	// Not at another place, and not of another one.
	for _, c := range [][2]string{{"/dev/shm", "/x"}, {"/x", "/dev/shm"}} {
		_, _, _, err := one(t, specs.Mount{Destination: c[1], Type: "bind", Source: c[0], Options: []string{"rbind"}}, &bindsource.Fact{Path: c[0], Kind: bindsource.Dir, UID: 1000}, policy.Default())
		if (err == nil) != (c[0] == "/x") {
			t.Errorf("%s at %s: %v", c[0], c[1], err)
		}
	}
	// Shared memory that the engine made larger than policy allows.
	m, b, rep, err := one(t, specs.Mount{Destination: "/dev/shm", Type: "bind", Source: "/v/shm", Options: []string{"bind"}}, &bindsource.Fact{Path: "/v/shm", Kind: bindsource.Dir, Role: bindsource.Injected, Room: 1 << 40}, policy.Default())
	if err != nil || m.Type != "tmpfs" || b != nil || len(find(rep, report.Denied, "mounts[/dev/shm].size")) != 1 ||
		!slices.Contains(m.Options, "size=4294967296") {
		t.Errorf("%v %+v %v", err, m, rep.Changes)
	}
}

// TestSys: a jail's /sys is a tmpfs, however the bundle requests it, and nothing
// of the host's is mounted into it.
func TestSys(t *testing.T) {
	for _, m := range []specs.Mount{
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
		{Destination: "/sys/", Type: "sysfs", Source: "sysfs", Options: []string{"rw"}},
		{Destination: "/sys", Type: "tmpfs", Source: "x", Options: []string{"size=99g", "mode=777"}},
	} {
		res, rep := jail(t, mount(m))
		if len(res.Spec.Mounts) != 3 || res.Spec.Mounts[2].Type != "tmpfs" || !slices.Contains(res.Spec.Mounts[2].Options, "ro") || !slices.Contains(res.Spec.Mounts[2].Options, "size=65536") {
			t.Errorf("%s", jsonOf(t, res.Spec.Mounts))
		}
		if ro := slices.Contains(m.Options, "ro"); ro == (len(find(rep, report.Denied, "mounts[*")) > 0) {
			t.Errorf("%q: %v", m.Options, rep.Of(report.Denied))
		}
	}
	s := mount(specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"ro"}})
	s.Mounts = append(s.Mounts, specs.Mount{Destination: "/sys", Type: "tmpfs", Source: "tmpfs"})
	contain(t, "a tmpfs over it", refused(t, s, policy.Default(), testFacts(s)), "mount at /sys: refused: it would cover the jail's own /sys (remedy: leave it out)")
	s = mount(specs.Mount{Destination: "/sys/devices/system/cpu/", Type: "bind", Source: "/sys/devices/system/./cpu", Options: []string{"rbind", "ro"}})
	f := testFacts(s)
	f.Sources = []*bindsource.Fact{2: {Path: "/sys/devices/system/cpu", Kind: bindsource.Dir}}
	contain(t, "the host's processors", refused(t, s, policy.Default(), f), "only the jail's own kernel file system")
	const groups = "/sys/fs/cgroup/systemd"
	s = mount(specs.Mount{Destination: groups, Type: "bind", Source: groups, Options: []string{"bind"}})
	f = testFacts(s)
	f.Sources = []*bindsource.Fact{2: {Path: groups, Kind: bindsource.Dir}}
	contain(t, "systemd's control groups", refused(t, s, policy.Default(), f), "(remedy: podman run --systemd=false")
	pol := policy.Default()
	pol.Limits.Mounts = 3
	s = mount(specs.Mount{Destination: "/sys", Type: "sysfs"})
	if !check(t, s, pol, testFacts(s)) {
		t.Error("refused at the limit")
	}
	pol.Limits.Mounts = 2
	contain(t, "one mount too many", refused(t, s, pol, testFacts(s)), "limits.mounts")
}

func TestEssentialMounts(t *testing.T) {
	for i, says := range []string{"no proc at /proc", "no tmpfs at /dev"} {
		s := small()
		s.Mounts = slices.Delete(s.Mounts, i, i+1)
		contain(t, "a spec without", refused(t, s, policy.Default(), testFacts(s)), says)
	}
}

func TestMountIDMappings(t *testing.T) {
	m, _, rep, err := one(t, specs.Mount{Destination: "/x", Type: "tmpfs", UIDMappings: []specs.LinuxIDMapping{{Size: 1}}, GIDMappings: []specs.LinuxIDMapping{{Size: 1}}}, nil, policy.Default())
	if err != nil || m.UIDMappings != nil || m.GIDMappings != nil || len(find(rep, report.Dropped, "mounts[/x]")) != 1 {
		t.Errorf("%v %+v", err, m)
	}
}
