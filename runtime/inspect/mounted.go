package inspect

import (
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/state"
)

// Mounted is something of the host's that a jail has, and who of the jail owns it.
type Mounted struct {
	Path     string `json:"path"`
	UID      uint32 `json:"uid"` // as the jail sees it
	GID      uint32 `json:"gid"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// String is the mount for people.
func (m Mounted) String() string {
	how := "writable"
	if m.ReadOnly {
		how = "read-only"
	}
	who := fmt.Sprintf("uid %d, gid %d", m.UID, m.GID)
	if m.UID == idmap.Overflow {
		who = "a user outside the jail"
	}
	return fmt.Sprintf("mounted at %s, %s: belongs to %s", m.Path, how, who)
}

// mounted are the host's directories and files in the jail, but for the mounts that
// protect parts of them.
func (s *seen) mounted(j *state.Jail) []Mounted {
	var out []Mounted
	for _, m := range s.of(hostMount) {
		if m.owner == nil || slices.Contains(j.Protected, m.Point) {
			continue
		}
		out = append(out, Mounted{
			Path: m.Point, UID: inside(s.uidMap, m.owner.UID), GID: inside(s.gidMap, m.owner.GID),
			ReadOnly: m.ReadOnly(),
		})
	}
	return out
}

// inside is a host's id as a user namespace with this map sees it
// (user_namespaces(7)).
func inside(ms []specs.LinuxIDMapping, host uint32) uint32 {
	for _, m := range ms {
		if host >= m.HostID && host-m.HostID < m.Size {
			return m.ContainerID + host - m.HostID
		}
	}
	return idmap.Overflow
}
