package idmap

import (
	"cmp"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// A Pair reports which id on a disk stands for an id of the jail.
type Pair struct{ Disk, Jail uint32 }

// ForMount is the mapping of an idmapped mount (mount_setattr(2)), from ids on the disk to the
// host's ids of the jail. owners are the pairs that matter. Each other id of the jail has one of
// ReservedFirst's on the disk: the kernel checks whether an id can be stored at all before it
// checks who may set it (notify_change in fs/attr.c), and would answer EOVERFLOW to a chown(2) that
// is to fail with EPERM. It maps no id twice in either direction (user_namespaces(7)), so an owner
// that is itself a reserved id changes places with the one that it stands for. ok is false where
// the jail lacks one of the owners.
func ForMount(jail []specs.LinuxIDMapping, owners ...Pair) (ms []specs.LinuxIDMapping, ok bool) {
	cuts := map[uint32]bool{} // ids of the jail that no run goes through
	var free []uint32         // reserved ids that owners leave unused
	for _, o := range owners {
		host, known := lookup(jail, o.Jail)
		if !known {
			return nil, false
		}
		ms = append(ms, specs.LinuxIDMapping{ContainerID: o.Disk, HostID: host, Size: 1})
		cuts[o.Jail] = true
		if own := ReservedFirst + o.Jail; o.Jail < reservedSize && !onDisk(owners, own) {
			free = append(free, own)
		}
	}
	rest := ms
	for _, o := range owners {
		n := o.Disk - ReservedFirst
		if o.Disk < ReservedFirst || n >= reservedSize || cuts[n] {
			continue
		}
		cuts[n] = true
		if host, known := lookup(jail, n); known && len(free) > 0 {
			rest = append(rest, specs.LinuxIDMapping{ContainerID: free[0], HostID: host, Size: 1})
			free = free[1:]
		}
	}
	for _, e := range jail {
		rest = append(rest, reserved(e, cuts)...)
		rest = append(rest, reservedHigh(jail, e, cuts)...)
	}
	if len(rest) >= maxExtents { // a caller may add one
		return ms, true // EOVERFLOW is the answer then
	}
	slices.SortFunc(rest, func(a, b specs.LinuxIDMapping) int { return cmp.Compare(a.ContainerID, b.ContainerID) })
	return rest, true
}

// reservedHigh maps ids of WithHigh to the reserved ids of those that they stand for.
func reservedHigh(jail []specs.LinuxIDMapping, e specs.LinuxIDMapping, cuts map[uint32]bool) (out []specs.LinuxIDMapping) {
	if e.ContainerID < RangeSize || e.Size > MaxHigh {
		return nil
	}
	for i := range e.Size {
		n := (e.HostID + i) % RangeSize
		_, known := lookup(jail, n)
		if !known && n < reservedSize && !cuts[n] && !cuts[e.ContainerID+i] {
			out = append(out, specs.LinuxIDMapping{ContainerID: ReservedFirst + n, HostID: e.HostID + i, Size: 1})
			cuts[n] = true
		}
	}
	return out
}

// othersFirst is where WithOthers has the ids below ReservedFirst: no tool allocates those from
// 2147483648 on (UIDS-GIDS.md), and the first of them are the helpers'.
const othersFirst = 1<<31 + 4096

// maxText is how much of a mapping the kernel reads (user_namespaces(7)), in bytes.
const maxText = 4096

// WithOthers adds the other ids on the disk to a mapping of ForMount, each by a host id that the
// jail does not have. So the owner of a directory may remove and rename what others own in it: the
// kernel refuses that for a file without an id (EOVERFLOW from may_delete in fs/namei.c), and also
// all writing to the file (inode_permission), which then is up to the file's mode. The jail's user
// namespace must not have these ids: a capability in it extends to a file only where it has both
// (privileged_wrt_inode_uidgid in kernel/capability.c). Reserved ids of other jails' users, and the
// few ids for which there is no room, stay without.
func WithOthers(ms, jail []specs.LinuxIDMapping) []specs.LinuxIDMapping {
	others := []specs.LinuxIDMapping{
		{ContainerID: 0, HostID: othersFirst, Size: ReservedFirst},
		{ContainerID: 1<<31 + RangeSize, HostID: RangeSize, Size: 1<<31 - RangeSize - 1},
	}
	for _, e := range ms {
		others = cut(others, false, e.ContainerID, e.Size)
		others = cut(others, true, e.HostID, e.Size)
	}
	for _, e := range jail {
		others = cut(others, true, e.HostID, e.Size)
	}
	all := append(slices.Clone(ms), others...)
	if len(all) > maxExtents || len(Text(all)) >= maxText {
		return ms
	}
	slices.SortFunc(all, func(a, b specs.LinuxIDMapping) int { return cmp.Compare(a.ContainerID, b.ContainerID) })
	return all
}

// cut leaves a range of ids out of mappings: of the host's, or else of those on the disk.
func cut(ms []specs.LinuxIDMapping, ofHost bool, first, size uint32) (out []specs.LinuxIDMapping) {
	for _, e := range ms {
		at := e.ContainerID
		if ofHost {
			at = e.HostID
		}
		if !overlap(at, e.Size, first, size) {
			out = append(out, e)
			continue
		}
		if first > at {
			out = append(out, specs.LinuxIDMapping{ContainerID: e.ContainerID, HostID: e.HostID, Size: first - at})
		}
		if skip := uint64(first) + uint64(size) - uint64(at); skip < uint64(e.Size) {
			n := uint32(skip)
			out = append(out, specs.LinuxIDMapping{ContainerID: e.ContainerID + n, HostID: e.HostID + n, Size: e.Size - n})
		}
	}
	return out
}

// Unused is a mapping of an idmapped mount that no file of its has: the kernel needs one that maps
// something.
func Unused() []specs.LinuxIDMapping {
	const last = 1<<32 - 2 // the largest id (user_namespaces(7))
	return []specs.LinuxIDMapping{{ContainerID: last, HostID: ReservedFirst, Size: 1}}
}

func onDisk(owners []Pair, id uint32) bool {
	return slices.ContainsFunc(owners, func(o Pair) bool { return o.Disk == id })
}

// reserved maps a range of the jail's to reserved ids, without the cuts.
func reserved(e specs.LinuxIDMapping, cuts map[uint32]bool) []specs.LinuxIDMapping {
	first, end := uint64(e.ContainerID), min(uint64(e.ContainerID)+uint64(e.Size), reservedSize)
	var at []uint64
	for c := range cuts {
		if uint64(c) >= first && uint64(c) < end {
			at = append(at, uint64(c))
		}
	}
	slices.Sort(at)
	var out []specs.LinuxIDMapping
	for _, c := range append(at, end) {
		if c > first {
			out = append(out, specs.LinuxIDMapping{
				ContainerID: ReservedFirst + uint32(first), HostID: e.HostID + uint32(first) - e.ContainerID, Size: uint32(c - first),
			})
		}
		first = c + 1
	}
	return out
}
