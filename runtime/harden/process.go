package harden

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/host"
	"agentjail.dev/runtime/policy"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/report"
)

// process is what create and exec demand of a process alike.
func process(p *pass) {
	pr := p.spec.Process
	if _, ok := p.f.IDs.HostUID(pr.User.UID); !ok {
		p.refuse(refusal.User, "process.user.uid %d is outside the jail's ids (0 to %d)", pr.User.UID, policy.RangeSize-1)
	}
	if _, ok := p.f.IDs.HostGID(pr.User.GID); !ok {
		p.refuse(refusal.User, "process.user.gid %d is outside the jail's ids (0 to %d)", pr.User.GID, policy.RangeSize-1)
	}
	groups := pr.User.AdditionalGids[:0:0]
	for _, g := range pr.User.AdditionalGids {
		if _, ok := p.f.IDs.HostGID(g); ok {
			groups = append(groups, g)
		} else {
			p.change(report.Access, report.Dropped, "process.user.additionalGids", fmt.Sprint(g), "", "outside the jail's ids")
		}
	}
	if pr.User.AdditionalGids != nil {
		pr.User.AdditionalGids = groups
	}
	checkCwd(p, pr.Cwd)
	if !pr.NoNewPrivileges {
		pr.NoNewPrivileges = true
		p.change(report.Access, report.Set, "process.noNewPrivileges", "", "true", "set-id programs and file capabilities give nothing")
	}
	priorities(p)
	rlimits(p)
}

// checkCwd refuses working directories by which a file that the delegate left
// open becomes a way out (CVE-2024-21626). Symbolic links to the same end are
// the stage's to find: this sees the name only.
func checkCwd(p *pass, cwd string) {
	switch {
	case cwd == "" || !path.IsAbs(cwd):
		p.refuse(refusal.Cwd, "process.cwd %q is not an absolute path", cwd)
		return
	case strings.ContainsRune(cwd, 0):
		p.refuse(refusal.Cwd, "process.cwd contains a NUL byte")
		return
	}
	at := "/"
	for name := range strings.SplitSeq(cwd, "/") {
		if at = path.Join(at, name); at == "/proc" {
			p.refuse(refusal.Cwd, "process.cwd %q is in /proc, whose links can lead out of the jail (CVE-2024-21626)", cwd)
			return
		}
	}
}

// coreOff is the limit on core files with which a crash writes none, and starts
// no program either: where core_pattern is a pipe, the kernel looks at this one
// value only (core(5); fs/coredump.c, coredump_pipe). The program would be the
// host's, run as its root for every crash in a jail and fed with its memory.
const coreOff = 1

// fixed is a bound that policy has no say in.
func fixed(v uint64) func(policy.Limits) (uint64, bool) {
	return func(policy.Limits) (uint64, bool) { return v, true }
}

// A rlimit's bound; value reads it from policy, and ok says whether there is
// one. Of an exact one the value is the limit itself, soft and hard.
var rlimitBounds = []struct {
	name  string
	why   string
	value func(policy.Limits) (v uint64, ok bool)
	exact bool
}{
	{"RLIMIT_CORE", "a crash writes no memory image into a workspace, and starts no program of the host", fixed(coreOff), true},
	{"RLIMIT_MEMLOCK", "locked memory cannot be reclaimed", func(l policy.Limits) (uint64, bool) { return uint64(l.MemLock), l.MemLock > 0 }, false},
	{"RLIMIT_MSGQUEUE", "POSIX message queues are kernel memory", fixed(0), false},
	{"RLIMIT_NICE", "a jail does not go before the host's own processes", fixed(0), false},
	{"RLIMIT_NOFILE", "open files are kernel memory", func(l policy.Limits) (uint64, bool) { return l.NoFile, l.NoFile > 0 }, false},
	{"RLIMIT_NPROC", "a second protection behind the pids control group", func(l policy.Limits) (uint64, bool) { return uint64(l.Pids), l.Pids > 0 }, false},
	{"RLIMIT_RTPRIO", "real-time scheduling can starve the host", fixed(0), false},
	{"RLIMIT_SIGPENDING", "queued signals are kernel memory", fixed(4096), false},
}

func rlimits(p *pass) {
	pr := p.spec.Process
	seen := map[string]bool{}
	out := pr.Rlimits[:0:0]
	for _, r := range pr.Rlimits {
		if _, known := host.Rlimits[r.Type]; !known {
			p.refuse(refusal.Rlimit, "process.rlimits: unknown type %q", r.Type)
			continue
		}
		if seen[r.Type] {
			p.refuse(refusal.Rlimit, "process.rlimits lists %s twice", r.Type)
			continue
		}
		seen[r.Type] = true
		out = append(out, r)
	}
	for _, b := range rlimitBounds {
		v, ok := b.value(p.pol.Limits)
		if !ok {
			continue
		}
		if h, ok := p.f.Host.HardLimits[b.name]; ok && b.exact && h < v {
			p.missing(report.Resources, "process.rlimits["+b.name+"]", fmt.Sprintf("the engine's own bound is %d, and only CAP_SYS_RESOURCE raises it to %d: %s", h, v, b.why))
		}
		i := slices.IndexFunc(out, func(r specs.POSIXRlimit) bool { return r.Type == b.name })
		if i < 0 {
			// Below the bound that this process itself has: a child's cannot be
			// raised without CAP_SYS_RESOURCE.
			if h, ok := p.f.Host.HardLimits[b.name]; ok && h < v {
				v = h
			}
			p.change(report.Resources, report.Set, "process.rlimits["+b.name+"]", "", fmt.Sprint(v), b.why)
			out = append(out, specs.POSIXRlimit{Type: b.name, Hard: v, Soft: v})
			continue
		}
		if out[i].Hard > v || b.exact && out[i] != (specs.POSIXRlimit{Type: b.name, Hard: v, Soft: v}) {
			p.change(report.Resources, report.Lowered, "process.rlimits["+b.name+"]", fmt.Sprint(out[i].Hard), fmt.Sprint(v), b.why)
			out[i].Hard = v
		}
		if b.exact {
			out[i].Soft = v
		}
	}
	for i := range out {
		if h, ok := p.f.Host.HardLimits[out[i].Type]; ok && out[i].Hard > h {
			p.change(report.Resources, report.Lowered, "process.rlimits["+out[i].Type+"]", fmt.Sprint(out[i].Hard), fmt.Sprint(h), "the engine's own bound")
			out[i].Hard = h
		}
		out[i].Soft = min(out[i].Soft, out[i].Hard)
	}
	pr.Rlimits = out
}

// defaultCaps are what engines give every container without being asked
// (moby oci/caps/defaults.go; containerd and Podman give these or fewer). Only
// what goes beyond them is a grant that somebody asked for.
var defaultCaps = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
	"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

// capabilities empties all five sets (capabilities(7)). An absent object would
// leave the delegate's own.
func capabilities(p *pass) {
	pr := p.spec.Process
	if c := pr.Capabilities; c != nil {
		all := slices.Concat(c.Bounding, c.Effective, c.Permitted, c.Inheritable, c.Ambient)
		slices.Sort(all)
		all = slices.Compact(all)
		extra := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(defaultCaps, s) })
		if len(extra) > 0 {
			p.lost(report.Access, "process.capabilities", list(extra), "none", "a jail has no capability at all")
		} else if len(all) > 0 {
			p.change(report.Access, report.Lowered, "process.capabilities", fmt.Sprintf("%d default ones", len(all)), "none", "a jail has no capability at all")
		}
	} else {
		p.change(report.Access, report.Set, "process.capabilities", "", "none", "a jail has no capability at all")
	}
	pr.Capabilities = &specs.LinuxCapabilities{}
}

// list is a short enumeration.
func list(s []string) string {
	if len(s) > 6 {
		return fmt.Sprintf("%s and %d more", strings.Join(s[:5], ", "), len(s)-5)
	}
	return strings.Join(s, ", ")
}
