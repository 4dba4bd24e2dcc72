// Package idmap is the mapping between a jail's ids and the host's.
package idmap

import (
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Overflow is the host's overflow user and group (user_namespaces(7)).
const Overflow = 65534

// Map is how a jail's ids map to the host's.
type Map struct {
	// Block is the block of the pool, or -1 when the engine brought its own
	// mapping (Given).
	Block int                    `json:"block"`
	Given bool                   `json:"given,omitempty"`
	UIDs  []specs.LinuxIDMapping `json:"uids"`
	GIDs  []specs.LinuxIDMapping `json:"gids"`
}

// ForBlock is the mapping for a block of a pool. If rootIsOverflow is true, the container's root is
// the host's overflow user (65534).
func ForBlock(p Pool, rootIsOverflow bool, block int) Map {
	base := p.First + uint32(block)*RangeSize
	ms := []specs.LinuxIDMapping{{ContainerID: 0, HostID: base, Size: RangeSize}}
	if rootIsOverflow {
		ms = []specs.LinuxIDMapping{
			{ContainerID: 0, HostID: Overflow, Size: 1},
			{ContainerID: 1, HostID: base + 1, Size: RangeSize - 1},
		}
	}
	return Map{Block: block, UIDs: ms, GIDs: ms}
}

// ForEngine takes over a mapping that the engine made (Docker's userns-remap, Podman's --userns,
// the kubelet's). It is refused if it would map for a container a host id that people or services
// have, or one of the pool's, which another jail may have.
func ForEngine(p Pool, uids, gids []specs.LinuxIDMapping) (Map, error) {
	return ofEngine(uids, gids, func(ms []specs.LinuxIDMapping) error { return checkEngines(p, ms) })
}

// ForUser takes over a mapping that a rootless engine made. The kernel sees to it
// that it stays within the user's own ids.
func ForUser(uids, gids []specs.LinuxIDMapping) (Map, error) {
	return ofEngine(uids, gids, checkShape)
}

func ofEngine(uids, gids []specs.LinuxIDMapping, check func([]specs.LinuxIDMapping) error) (Map, error) {
	m := Map{Block: -1, Given: true, UIDs: uids, GIDs: gids}
	for _, ms := range [][]specs.LinuxIDMapping{uids, gids} {
		if err := check(ms); err != nil {
			return m, fmt.Errorf("id mapping %s %w", oneLine(ms), err)
		}
	}
	return m, nil
}

// Host reports whether a mapping is that of the machine's own user namespace.
func Host(ms []specs.LinuxIDMapping) bool {
	return len(ms) == 1 && ms[0].ContainerID == 0 && ms[0].HostID == 0 && ms[0].Size == 1<<32-1
}

// maxExtents is the kernel's bound (user_namespaces(7)).
const maxExtents = 340

// ownRange is the remedy for an engine's range of host ids.
const ownRange = "no map of your own, so that the jail gets ids that no other has, or a range outside, as 0:100000:65536"

func checkEngines(pool Pool, ms []specs.LinuxIDMapping) error {
	if err := checkShape(ms); err != nil {
		return err
	}
	for _, e := range ms {
		if e.HostID < RangeSize && !(e.HostID == Overflow && e.Size == 1) {
			return fmt.Errorf("reaches host ids below %d, of the host's users (remedy: %s)", RangeSize, ownRange)
		}
		if overlap(e.HostID, e.Size, pool.First, pool.Count) {
			return fmt.Errorf("reaches into agentjail's own pool, userns.pool (remedy: %s)", ownRange)
		}
		if overlap(e.HostID, e.Size, ReservedFirst, reservedSize) {
			return fmt.Errorf("reaches into ids that no process may have (remedy: %s)", ownRange)
		}
	}
	return nil
}

func checkShape(ms []specs.LinuxIDMapping) error {
	if len(ms) > maxExtents {
		return fmt.Errorf("has more than %d ranges", maxExtents)
	}
	if _, ok := lookup(ms, 0); !ok {
		return errors.New("has no container root")
	}
	for i, e := range ms {
		if e.Size == 0 || uint64(e.HostID)+uint64(e.Size) > 1<<32 || uint64(e.ContainerID)+uint64(e.Size) > 1<<32 {
			return errors.New("is out of bounds")
		}
		for _, o := range ms[:i] {
			if overlap(e.HostID, e.Size, o.HostID, o.Size) || overlap(e.ContainerID, e.Size, o.ContainerID, o.Size) {
				return errors.New("maps an id twice")
			}
		}
	}
	return nil
}

func overlap(a, na, b, nb uint32) bool {
	return uint64(a) < uint64(b)+uint64(nb) && uint64(b) < uint64(a)+uint64(na)
}

// oneLine is a mapping for messages.
func oneLine(ms []specs.LinuxIDMapping) string {
	s := strings.ReplaceAll(strings.TrimSpace(Text(ms)), "\n", ", ")
	if len(s) > 80 {
		s = s[:77] + "..."
	}
	return s
}

// HostUID is the host's id for a container's user.
func (m Map) HostUID(id uint32) (uint32, bool) { return lookup(m.UIDs, id) }

// HostGID is the host's id for a container's group.
func (m Map) HostGID(id uint32) (uint32, bool) { return lookup(m.GIDs, id) }

// UIDInside is the container's id for a host's user.
func (m Map) UIDInside(id uint32) (uint32, bool) { return reverse(m.UIDs, id) }

// GIDInside is the container's id for a host's group.
func (m Map) GIDInside(id uint32) (uint32, bool) { return reverse(m.GIDs, id) }

// HasHostUID reports whether a host's user id is one of the jail's.
func (m Map) HasHostUID(id uint32) bool {
	_, ok := m.UIDInside(id)
	return ok
}

// HasHostGID reports whether a host's group id is one of the jail's.
func (m Map) HasHostGID(id uint32) bool {
	_, ok := m.GIDInside(id)
	return ok
}

func reverse(ms []specs.LinuxIDMapping, id uint32) (uint32, bool) {
	for _, m := range ms {
		if id >= m.HostID && uint64(id) < uint64(m.HostID)+uint64(m.Size) {
			return m.ContainerID + (id - m.HostID), true
		}
	}
	return 0, false
}

// spare is the id of a block that WithoutSpare leaves out. No image uses it: images of Kubernetes'
// pods run as the two after it and as the one before it.
const spare = 65533

// WithoutSpare is the mapping of a block without one id: that is on the host for a helper of the
// jail's, and shows as the overflow user in the jail.
func (m Map) WithoutSpare() Map {
	if m.Block < 0 {
		return m
	}
	m.UIDs, m.GIDs = without(m.UIDs, m.spare()), without(m.GIDs, m.spare())
	return m
}

// spare is the host id.
func (m Map) spare() uint32 { return first(m.UIDs)&^(RangeSize-1) + spare }

// without leaves a host id out.
func without(ms []specs.LinuxIDMapping, id uint32) []specs.LinuxIDMapping {
	return cut(ms, true, id, 1)
}

// Spare is the host id that WithoutSpare has left out, as user and group. A mapping of the engine's
// has none: then it is one of those that no process has, and no jail.
func (m Map) Spare() uint32 {
	id := m.spare()
	if m.Block < 0 || m.HasHostUID(id) || m.HasHostGID(id) {
		return ReservedFirst + reservedSize - 1
	}
	return id
}

// Owner returns the host user and group that stand for the jail as a whole: its first ids on the
// host that are not the overflow ids.
func (m Map) Owner() (uid, gid uint32) { return first(m.UIDs), first(m.GIDs) }

func first(ms []specs.LinuxIDMapping) uint32 {
	for _, m := range ms {
		if m.HostID != Overflow {
			return m.HostID
		}
	}
	return Overflow
}

func lookup(ms []specs.LinuxIDMapping, id uint32) (uint32, bool) {
	for _, m := range ms {
		if id >= m.ContainerID && uint64(id) < uint64(m.ContainerID)+uint64(m.Size) {
			return m.HostID + (id - m.ContainerID), true
		}
	}
	return 0, false
}

// Text is the mapping in the form of /proc/PID/uid_map (user_namespaces(7)).
func Text(ms []specs.LinuxIDMapping) string {
	var b strings.Builder
	for _, m := range ms {
		fmt.Fprintf(&b, "%d %d %d\n", m.ContainerID, m.HostID, m.Size)
	}
	return b.String()
}

// Equal compares two mappings.
func Equal(a, b []specs.LinuxIDMapping) bool { return Text(a) == Text(b) }
