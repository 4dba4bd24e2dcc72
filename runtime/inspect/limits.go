package inspect

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/spec/traits"
)

// unlimited is what "max" and -1 mean.
const unlimited = math.MaxUint64

// limitIn reads the text of a control group's limit; known is false for one that is no number, or
// of a file that is not there.
func limitIn(text string) (v uint64, known bool) {
	text = strings.TrimSpace(text)
	if text == "max" || text == "-1" {
		return unlimited, true
	}
	return cgroups.Number(text, "")
}

// unit writes a limit: exactly where it is BROKEN, shortly where it holds.
type unit struct{ exact, short func(uint64) string }

var (
	pieces = unit{plain, plain}
	volume = unit{size, about}
)

func plain(n uint64) string { return fmt.Sprint(n) }

// checkLimit compares a limit with policy's bound.
func checkLimit(have uint64, there bool, bound uint64, hostHas bool, u unit) outcome {
	want := "at most " + u.exact(bound)
	switch {
	case bound == 0:
		return holds("policy sets no bound")
	case !there && !hostHas:
		return lacking(want, "this host cannot limit it")
	case !there:
		return broken(want, "the jail's group has no limit")
	case have > bound && have >= math.MaxInt64>>16:
		// Version 1 writes "no limit" as the largest number of pages.
		return broken(want, "unlimited")
	case have > bound:
		return broken(want, "%s", u.exact(have))
	}
	return holds("at most %s; policy %s", u.short(have), u.short(bound))
}

func pidsLimit(d *demands, s *seen) outcome {
	v, ok := limitIn(s.cgroup.files["pids.max"])
	return checkLimit(v, ok, uint64(traits.Of(d.jail.Delegate).Pids(d.jail.Policy.Limits.Pids)), d.host.Cgroup.Pids, pieces)
}

func memoryLimit(d *demands, s *seen) outcome {
	file := "memory.limit_in_bytes"
	if s.cgroup.v2 {
		file = "memory.max"
	}
	v, ok := limitIn(s.cgroup.files[file])
	return checkLimit(v, ok, uint64(d.jail.Policy.Limits.Memory), d.host.Cgroup.Memory, volume)
}

// socketLimit: version 1 has a limit of its own for the buffers of sockets,
// version 2 counts them as memory.
func socketLimit(d *demands, s *seen) outcome {
	if s.cgroup.v2 {
		return holds("a part of the memory")
	}
	v, ok := limitIn(s.cgroup.files["memory.kmem.tcp.limit_in_bytes"])
	return checkLimit(v, ok, uint64(d.jail.Policy.Limits.Sockets), d.host.Cgroup.Sockets, volume)
}

// swapLimit: version 1 limits memory and swap together, version 2 swap alone.
func swapLimit(d *demands, s *seen) outcome {
	pol := d.jail.Policy.Limits
	if pol.Memory == 0 {
		return holds("policy sets no bound")
	}
	if !s.cgroup.v2 {
		v, ok := limitIn(s.cgroup.files["memory.memsw.limit_in_bytes"])
		o := checkLimit(v, ok, uint64(pol.Memory+pol.Swap), d.host.Cgroup.Swap, volume)
		o.seen += " (with memory)"
		return o
	}
	v, ok := limitIn(s.cgroup.files["memory.swap.max"])
	want := "at most " + pol.Swap.String()
	switch {
	case !ok: // the controller can be there without swap accounting
		return lacking(want, "this host does not account swap")
	case v == unlimited:
		return broken(want, "unlimited")
	case v > uint64(pol.Swap):
		return broken(want, "%s", size(v))
	}
	return holds("at most %s; policy %s", about(v), pol.Swap)
}

func cpuLimit(d *demands, s *seen) outcome {
	bound := d.jail.Policy.Limits.CPUs
	have, ok := s.cgroup.cpus()
	text := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	switch {
	case bound == 0:
		return holds("policy sets no bound")
	case !ok && !d.host.Cgroup.CPU:
		return lacking("at most "+text(bound), "this host cannot limit it")
	case !ok:
		return broken("at most "+text(bound), "the jail's group has no limit")
	case math.IsInf(have, 1):
		return broken("at most "+text(bound), "unlimited")
	case have > bound*1.001: // quotas are whole microseconds
		return broken("at most "+text(bound), "%s", text(have))
	}
	return holds("at most %s; policy %s", text(have), text(bound))
}

// cpus is the number of processors that the quota comes to.
func (c *cgroupState) cpus() (float64, bool) {
	var quota, period uint64
	var ok1, ok2 bool
	if c.v2 {
		f := strings.Fields(c.files["cpu.max"]) // "QUOTA PERIOD"
		if len(f) != 2 {
			return 0, false
		}
		quota, ok1 = limitIn(f[0])
		period, ok2 = limitIn(f[1])
	} else {
		quota, ok1 = limitIn(c.files["cpu.cfs_quota_us"])
		period, ok2 = limitIn(c.files["cpu.cfs_period_us"])
	}
	switch {
	case !ok1 || !ok2 || period == 0:
		return 0, false
	case quota == unlimited:
		return math.Inf(1), true
	}
	return float64(quota) / float64(period), true
}

// ioLimit: every disk that the record throttles is throttled, and no faster than policy. Hardening
// knew the disks from the bind mounts.
func ioLimit(d *demands, s *seen) outcome {
	pol := d.jail.Policy.Limits
	type bound struct {
		what  string
		rate  uint64
		disks []string
		have  map[string]uint64
	}
	bounds := []bound{
		{what: "reading", rate: uint64(pol.IORead), have: s.cgroup.rates("blkio.throttle.read_bps_device", "rbps")},
		{what: "writing", rate: uint64(pol.IOWrite), have: s.cgroup.rates("blkio.throttle.write_bps_device", "wbps")},
	}
	if r := d.jail.Limits; r != nil && r.BlockIO != nil {
		for _, t := range r.BlockIO.ThrottleReadBpsDevice {
			bounds[0].disks = append(bounds[0].disks, fmt.Sprintf("%d:%d", t.Major, t.Minor))
		}
		for _, t := range r.BlockIO.ThrottleWriteBpsDevice {
			bounds[1].disks = append(bounds[1].disks, fmt.Sprintf("%d:%d", t.Major, t.Minor))
		}
	}
	var good, bad []string
	for _, b := range bounds {
		for _, disk := range b.disks {
			have, ok := b.have[disk]
			switch {
			case b.rate == 0:
			case !ok:
				bad = append(bad, fmt.Sprintf("%s %s is not throttled", b.what, disk))
			case have > b.rate:
				bad = append(bad, fmt.Sprintf("%s %s at %s/s", b.what, disk, size(have)))
			default:
				good = append(good, fmt.Sprintf("%s %s at %s/s", b.what, disk, size(have)))
			}
		}
	}
	want := fmt.Sprintf("reading at most %s/s, writing %s/s", pol.IORead, pol.IOWrite)
	if why, ok := d.missing("linux.resources.blockIO"); ok {
		return lacking(want, "%s", why)
	}
	switch {
	case len(bad) > 0:
		return brokenList(want, bad)
	case len(good) == 0:
		return holds("no disk behind a writable mount or a layer")
	}
	return holds("%s", strings.Join(good, ", "))
}

// rates reads bytes per second by disk: of version 1 "MAJOR:MINOR RATE", of
// version 2 "MAJOR:MINOR rbps=RATE wbps=RATE ...".
func (c *cgroupState) rates(v1, v2 string) map[string]uint64 {
	out := map[string]uint64{}
	file := v1
	if c.v2 {
		file = "io.max"
	}
	for line := range strings.SplitSeq(c.files[file], "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		text := f[1]
		if c.v2 {
			i := slices.IndexFunc(f, func(x string) bool { return strings.HasPrefix(x, v2+"=") })
			if i < 0 {
				continue
			}
			text = strings.TrimPrefix(f[i], v2+"=")
		}
		if v, err := strconv.ParseUint(text, 10, 64); err == nil {
			out[f[0]] = v
		}
	}
	return out
}
