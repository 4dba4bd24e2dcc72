package idmap

import (
	"cmp"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// MaxHigh is how many ids from RangeSize on a jail can have: a mapping with so many still fits into
// the one page that the kernel reads of it (user_namespaces(7)), also that of an image (ForImage).
const MaxHigh = 48

// The ids of a block that can stand for higher ones. systemd assigns them to services while these
// run (UIDS-GIDS.md), so that no file of an image has them.
const (
	firstStandIn = 61184
	lastStandIn  = 65519
)

// WithHigh is the mapping with users and groups from RangeSize on, each by a host id of the block,
// which then stands for no lower one. used are lower ids that stay. Of more than MaxHigh, the first
// count. A mapping of the engine's stays as it is.
func (m Map) WithHigh(high, used []uint32) Map {
	var ids []uint32
	for _, id := range high {
		if id >= RangeSize && id != 1<<32-1 && len(ids) < MaxHigh && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if m.Block < 0 || len(ids) == 0 {
		return m
	}
	slices.Sort(ids)
	base := first(m.UIDs) &^ (RangeSize - 1)
	var standIns []uint32
	for id := uint32(lastStandIn); id >= firstStandIn && len(standIns) < len(ids); id-- {
		if !slices.Contains(used, id) {
			standIns = append(standIns, base+id)
		}
	}
	slices.Reverse(standIns)
	for _, host := range standIns {
		m.UIDs, m.GIDs = without(m.UIDs, host), without(m.GIDs, host)
	}
	var ms []specs.LinuxIDMapping
	for i, host := range standIns {
		if n := len(ms); n > 0 && ms[n-1].ContainerID+ms[n-1].Size == ids[i] && ms[n-1].HostID+ms[n-1].Size == host {
			ms[n-1].Size++
			continue
		}
		ms = append(ms, specs.LinuxIDMapping{ContainerID: ids[i], HostID: host, Size: 1})
	}
	m.UIDs, m.GIDs = append(m.UIDs, ms...), append(m.GIDs, ms...)
	return m
}

// baseExtents are the ranges of a mapping that the kernel keeps in the user namespace itself
// (UID_GID_MAP_MAX_BASE_EXTENTS), where eBPF programs read them.
const baseExtents = 5

// Readable reports whether eBPF programs find a block of the pool in a user namespace.
func (m Map) Readable() bool { return !m.Given && len(m.UIDs) <= baseExtents }

// ForImage is the mapping of an image's files, from ids on the disk to the host's. Those from
// RangeSize on that the jail does not have stay as they are: no user of the jail owns the files,
// which can be read, removed and replaced as any user's. The kernel refuses that for a file without
// an id (EOVERFLOW from may_delete in fs/namei.c).
func (m Map) ForImage() (uids, gids []specs.LinuxIDMapping) {
	if m.Block < 0 {
		return m.UIDs, m.GIDs
	}
	end := min(first(m.UIDs)&^(RangeSize-1), DefaultPool().First)
	return unchanged(m.UIDs, end), unchanged(m.GIDs, end)
}

// unchanged adds the ids from RangeSize up to end that a mapping does not have.
func unchanged(ms []specs.LinuxIDMapping, end uint32) []specs.LinuxIDMapping {
	ms = slices.Clone(ms)
	at := uint32(RangeSize)
	add := func(to uint32) {
		if to > at {
			ms = append(ms, specs.LinuxIDMapping{ContainerID: at, HostID: at, Size: to - at})
		}
	}
	for _, e := range ms { // WithHigh has them in order
		if e.ContainerID >= RangeSize && e.ContainerID < end {
			add(e.ContainerID)
			at = e.ContainerID + e.Size
		}
	}
	add(end)
	return ms
}

// Ranges lists the ids that a mapping has in a jail, in order.
func Ranges(ms []specs.LinuxIDMapping) [][2]uint32 {
	ms = slices.Clone(ms)
	slices.SortFunc(ms, func(a, b specs.LinuxIDMapping) int { return cmp.Compare(a.ContainerID, b.ContainerID) })
	var out [][2]uint32
	for _, e := range ms {
		if n := len(out); n > 0 && out[n-1][1]+1 == e.ContainerID {
			out[n-1][1] += e.Size
		} else {
			out = append(out, [2]uint32{e.ContainerID, e.ContainerID + e.Size - 1})
		}
	}
	return out
}
