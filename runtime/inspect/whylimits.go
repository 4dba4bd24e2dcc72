package inspect

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/observe/why"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
)

// onCommandLine is where a container's own options are written.
const onCommandLine = "the container's command line"

// A limit is one of a jail's: its key in policy, policy's bound, and the option of a container that
// requests less.
type limit struct {
	key, option string
	bound       uint64
	sized       bool // of bytes
}

func (l *limit) text(n uint64) string {
	if l.sized {
		return dockerSize(n)
	}
	return strconv.FormatUint(n, 10)
}

// dockerSize is a size as policy and Docker's options both read it.
func dockerSize(n uint64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%dm", n>>20)
	}
	return strconv.FormatUint(n, 10)
}

// inForce is the smaller of policy's bound and what the kernel has; 0 is no limit.
func (l *limit) inForce(have uint64, known bool) uint64 {
	if !known || have >= math.MaxInt64>>16 || l.bound > 0 && have > l.bound {
		return l.bound
	}
	return have
}

// moved is what moves a limit: the annotation or the option that requests less than policy permits,
// or else policy. It is nil where there is no limit.
func (l *limit) moved(j *policy.Policy, have uint64) []why.Remedy {
	if have == 0 {
		return nil
	}
	more := l.text(2 * have)
	where := fmt.Sprintf("%s; at most policy's %s, %s", onCommandLine, l.key, l.text(l.bound))
	annotation := policy.AnnotationPrefix + l.key
	switch {
	case j.Origin != nil && j.Origin.Annotations[annotation] != "":
		return []why.Remedy{{
			Write: fmt.Sprintf("the annotation %s=%s (agentjail sandbox --tighten %s=%s), or none", annotation, more, l.key, more), Where: where,
		}}
	case have < l.bound || l.bound == 0:
		return []why.Remedy{{Write: fmt.Sprintf(l.option, more), Where: where}}
	}
	if l.sized {
		more = strconv.Quote(policy.Size(2 * have).String())
	}
	return []why.Remedy{{Write: l.key + " = " + more, Where: why.ThePolicy}}
}

// limitsOf are the limits of a jail that messages are about.
func limitsOf(d *demands) (pids, memory, files limit) {
	l := &d.jail.Policy.Limits
	return limit{"limits.pids", "docker run --pids-limit %s", uint64(max(0, traits.Of(d.jail.Delegate).Pids(l.Pids))), false},
		limit{"limits.memory", "docker run --memory %s", uint64(max(0, l.Memory)), true},
		limit{"limits.nofile", "docker run --ulimit nofile=%s", l.NoFile, false}
}

// limitSigns are those of limits in control groups, and of open files.
func limitSigns(groups map[string]string, d *demands) []why.Sign {
	var out []why.Sign
	pol := &d.jail.Policy
	pids, memory, files := limitsOf(d)
	first := func(names ...string) (uint64, bool) {
		for _, name := range names {
			if v, ok := limitIn(groups[name]); ok {
				return v, true
			}
		}
		return 0, false
	}
	oom, known := cgroups.Number(groups["memory.events"], "oom_kill")
	if !known {
		oom, known = cgroups.Number(groups["memory.oom_control"], "oom_kill")
	}
	have := memory.inForce(first("memory.max", "memory.limit_in_bytes"))
	if known {
		out = append(out, why.Sign{
			Sign: "memory", Shown: oom > 0, Remedies: memory.moved(pol, have),
			Text: fmt.Sprintf("the kernel killed %d of the jail's processes at its memory limit of %s", oom, about(have)),
		})
	}
	met, known := cgroups.Number(groups["pids.events"], "max")
	have = pids.inForce(first("pids.max"))
	if known {
		out = append(out, why.Sign{
			Sign: "pids", Shown: met > 0, Remedies: pids.moved(pol, have),
			Text: fmt.Sprintf("the limit of %d processes was met %d times", have, met),
		})
	}
	if p := d.jail.Process; p != nil {
		for _, r := range p.Rlimits {
			if r.Type == "RLIMIT_NOFILE" {
				have := files.inForce(r.Soft, true)
				out = append(out, why.Sign{
					Sign: "nofile", Remedies: files.moved(pol, have),
					Text: fmt.Sprintf("each process may have %d files open", have),
				})
			}
		}
	}
	return out
}

// fullTmpfs is the sign of a tmpfs at a place of the jail that is full, with what enlarges it
// room.
func fullTmpfs(d *demands, at string, size uint64) []why.Remedy {
	pol := &d.jail.Policy
	where := onCommandLine + "; at most tmpfs.max, "
	option := "docker run --tmpfs " + at + ":size=%s"
	if path.Clean(at) == "/dev/shm" {
		option = "docker run --shm-size %s"
	}
	key, most := "tmpfs.size", uint64(pol.MaxTmpfs(d.host.MemTotal, d.host.Cgroup.Memory))
	where += about(most)
	if size >= most && most > 0 {
		key = "tmpfs.max"
	} else if size != uint64(pol.Tmpfs.Size) {
		return []why.Remedy{{Write: fmt.Sprintf(option, dockerSize(2*size)), Where: where}}
	}
	return []why.Remedy{
		{Write: fmt.Sprintf("%s = %q", key, policy.Size(2*size)), Where: why.ThePolicy},
		{Write: fmt.Sprintf(option, dockerSize(2*size)), Where: where},
	}
}

// onHost is a path of the jail's as the host has it; "" where it is not in a writable mount.
func onHost(d *demands, name string) string {
	mounted := slices.Clone(d.jail.Mounted)
	slices.SortFunc(mounted, func(a, b state.Mounted) int { return len(b.At) - len(a.At) })
	for _, m := range mounted {
		if rest, ok := pathname.Rel(name, m.At); ok || name == m.At {
			return path.Join(string(m.Source), rest)
		}
	}
	return ""
}
