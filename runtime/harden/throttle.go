package harden

import (
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/rings"
)

// The fields with a disk's bytes per second.
const (
	readRates  = resources + "blockIO.throttleReadBpsDevice"
	writeRates = resources + "blockIO.throttleWriteBpsDevice"
)

const usable = "limits.io_read, limits.io_write: the disk behind a writable mount or a layer stays usable"

// throttles bounds the jail's reads and writes, in bytes per second, on the disks behind its
// writable bind mounts and its layers.
func throttles(p *pass, r *specs.LinuxResources) {
	rd, wr := uint64(p.pol.Limits.IORead), uint64(p.pol.Limits.IOWrite)
	if rd == 0 && wr == 0 {
		return
	}
	var disks []Disk
	writable := p.pol.Root.OnDisk()
	add := func(d Disk) {
		if d.Major != 0 && !slices.Contains(disks, d) {
			disks = append(disks, d)
		}
	}
	for _, b := range p.plan.Binds {
		if b.ReadOnly || b.Copy || b.Storage == plan.StorageThrowAway {
			continue
		}
		writable = true
		f := p.f.Sources[b.Index]
		add(Disk{int64(f.DiskMajor), int64(f.DiskMinor)})
		if b.Storage == plan.StorageReview {
			add(p.f.LayerDisk)
		}
	}
	if p.pol.Root.OnDisk() {
		add(p.f.LayerDisk)
	}
	switch {
	case !writable || len(disks) == 0:
		return
	case !p.f.Host.Cgroup.IO:
		p.missing(rings.Resources, resources+"blockIO", "the host cannot throttle disks: writable mounts and layers on disk are as fast as the disk")
		return
	}
	if r.BlockIO == nil {
		r.BlockIO = &specs.LinuxBlockIO{}
	}
	for _, d := range disks {
		if rd > 0 {
			throttle(p, readRates, &r.BlockIO.ThrottleReadBpsDevice, d, rd)
		}
		if wr > 0 {
			throttle(p, writeRates, &r.BlockIO.ThrottleWriteBpsDevice, d, wr)
		}
	}
}

// throttle holds one disk to a rate; every entry of that disk, since the last
// one counts.
func throttle(p *pass, field string, list *[]specs.LinuxThrottleDevice, d Disk, rate uint64) {
	found := false
	for i := range *list {
		t := &(*list)[i]
		if t.Major != d.Major || t.Minor != d.Minor {
			continue
		}
		found = true
		capRate(p, field, t, rate)
	}
	if !found {
		t := specs.LinuxThrottleDevice{Rate: rate}
		t.Major, t.Minor = d.Major, d.Minor
		*list = append(*list, t)
		p.bound(field, "", fmt.Sprintf("%s/s on %d:%d", policy.Size(rate), d.Major, d.Minor), usable)
	}
}

// capRates holds an update's rates to policy's.
func capRates(p *pass, field string, ts []specs.LinuxThrottleDevice, rate uint64) {
	for i := range ts {
		if rate > 0 {
			capRate(p, field, &ts[i], rate)
		}
	}
}

// capRate holds one entry to a rate. Its own of 0 takes the throttle off.
func capRate(p *pass, field string, t *specs.LinuxThrottleDevice, rate uint64) {
	switch {
	case t.Rate == 0:
		p.bound(field, unlimited, fmt.Sprint(rate), usable)
	case t.Rate > rate:
		p.above("", field, fmt.Sprint(t.Rate), fmt.Sprint(rate), usable)
	default:
		return
	}
	t.Rate = rate
}
