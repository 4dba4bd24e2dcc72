// Package plan is the output of hardening: the work to be done for a hardened spec (Plan), and
// the rules for every jail alike (MaskedPaths, StandardDevices, Rlimits and so on). It only holds
// data, so that the packages that mount, seal or audit need not import the packages that decide.
package plan

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
)

// Plan is the input of staging, the network, the init step and an audit for one hardened spec.
// `agentjail explain --json` prints it as JSON.
type Plan struct {
	IDs   idmap.Map `json:"ids"`
	Binds []Bind    `json:"binds,omitempty"`
	// User is the user of the jail that owns the files that OwnerDir maps.
	User User `json:"user"`
	// Capabilities are the most that a process of the jail's root has (policy.Grantable).
	Capabilities []string `json:"capabilities,omitempty"`
	// OwnerAlone maps no other user of the jail in what OwnerDir maps. Where policy lets the
	// jail's root give files away, no other of its ids has a place in a person's directory.
	OwnerAlone bool `json:"ownerAlone,omitempty"`
	// Dropped are mounts of the incoming spec, by index, that the hardened spec does not have.
	// The facts about later sources move up by one for each.
	Dropped []int `json:"dropped,omitempty"`
	// Unprotect and Hide are policy's, for the binds that have Protect and Hide.
	Unprotect []string `json:"unprotect,omitempty"`
	Hide      []string `json:"hide,omitempty"`
	// Sockets are patterns of the host's sockets and pipes that jails may use (binds.sockets).
	Sockets []string `json:"sockets,omitempty"`
	// Workspace bounds the layers of the binds with StorageReview.
	Workspace policy.Workspace `json:"workspace,omitzero"`
	// Tmpfs caps each tmpfs that is made for the jail.
	Tmpfs policy.Tmpfs `json:"tmpfs"`
	// Nodes are device nodes to make in the jail, beyond the standard ones.
	Nodes []specs.LinuxDevice `json:"nodes,omitempty"`
	Root  policy.Root         `json:"root"`
	// AlreadyMapped reports that the image's files already carry the jail's host ids.
	AlreadyMapped bool `json:"shifted,omitempty"`
	// KeepHostOwners reports that the root is a directory whose files keep their owners on the
	// host, so that the jail can read only files that everybody may read.
	KeepHostOwners bool `json:"plain,omitempty"`
	// Label is the SELinux label for the engine's own files in the jail, where it differs from
	// the engine's label.
	Label string `json:"label,omitempty"`
	// Network is the decision about the jail's network.
	Network network.Decision `json:"network"`
	// Resolver is the text of /etc/resolv.conf in the jail; "" leaves the file as it is.
	Resolver string `json:"resolver,omitempty"`
	// Authority is the certificate of the jail's own authority, as PEM; "" is none.
	Authority string `json:"authority,omitempty"`
	// Inside is the text of the file with the jail's own refusals
	// (runtime/observe/journal/inside); "" for no file.
	Inside string `json:"inside,omitempty"`
	// KnownHosts are lines for the jail's ssh (known_hosts(5)); "" is none.
	KnownHosts string `json:"knownHosts,omitempty"`
}

// ResolverFile is the resolver's configuration (resolv.conf(5)).
const ResolverFile = "/etc/resolv.conf"

// Bind is how one bind mount is to be staged.
type Bind struct {
	Index        int  `json:"index"` // in the hardened Spec.Mounts
	ReadOnly     bool `json:"readOnly"`
	NoExec       bool `json:"noExec"`
	NonRecursive bool `json:"flat"` // without the mounts below it
	// Copy reports that the jail gets a copy of the file, not the file: its mount
	// table then does not show the file's place on the host.
	Copy bool `json:"copy,omitempty"`
	// Current has the start bring the copy up to date: the engine may write the file until then.
	// OwnName has the jail's own name lead to an address of lo, the only interface.
	Current bool   `json:"current,omitempty"`
	OwnName bool   `json:"ownName,omitempty"`
	Owner   Owner  `json:"owner"`
	Source  string `json:"source"`
	// HandOver makes the source's top the first process's user's, if it still is as
	// an engine makes it for a new volume.
	HandOver bool `json:"handOver,omitempty"`
	// Storage is where the jail's writes go.
	Storage Storage `json:"storage"`
	// Protect protects the files of the directory that the host runs, Absent also missing ones,
	// and Hide covers the files that policy hides.
	Protect bool `json:"protect,omitempty"`
	Absent  bool `json:"absent,omitempty"`
	Hide    bool `json:"hide,omitempty"`
	// Endpoints covers sockets of the host's that listen, and pipes. Part reports that the source
	// is a part of the machine's own file tree.
	// Shared reports that it belongs to containers in the jail's network namespace: of its sockets,
	// the host's alone are covered. OfPod reports that no pipe is, either.
	Endpoints bool `json:"endpoints,omitempty"`
	Part      bool `json:"part,omitempty"`
	Shared    bool `json:"shared,omitempty"`
	OfPod     bool `json:"ofPod,omitempty"`
	// NoWrite maps no group of a read-only mount. The kernel then refuses all that needs the right
	// to write to a file, such as connecting to a socket (inode_permission in fs/namei.c).
	NoWrite bool `json:"noWrite,omitempty"`
}

// Storage reports where the writes to a mounted directory go.
type Storage string

// StorageDirect is the directory itself: the jail's writes are there at once.
//
// StorageReview is a layer of the jail's own over the directory, which the directory's owner
// reviews and applies (runtime/workspace).
const (
	StorageDirect Storage = "direct"
	StorageReview Storage = "review"
)

// StorageImage is the file system in a file that agentjail made, whose size bounds what the jail
// writes.
const StorageImage Storage = "image"

// StorageThrowAway is a part of the ephemeral layer, over the directory: the changes end with the
// jail.
const StorageThrowAway Storage = "throw-away"

// StorageLayers mounts an engine's image, read-only, over clones of its layers with the owners of
// the jail's root.
const StorageLayers Storage = "layers"

// StorageTree is an overlay without a layer to write to, over a part of the machine's own tree. Its
// sockets and pipes are files of the overlay, at which no process of the host waits. Where a user's
// namespace cannot have the overlay, it is StorageDirect.
const StorageTree Storage = "tree"

// Owner is the rule for which files of a bind mount the jail may own.
type Owner string

// The mappings of a bind mount's owners.
const (
	// OwnerDir maps only the directory's owner on the host, to one user of the jail (Plan.User).
	OwnerDir Owner = "directory"
	// OwnerSame maps each id to the same number in the jail: an engine's
	// volume, which images fill with their own ids.
	OwnerSame Owner = "same"
	// OwnerHost maps nothing, since the ids on the disk are the jail's on the host: a volume of
	// an engine with an id mapping of its own.
	OwnerHost Owner = "host"
	// OwnerNone maps no id: the jail can read files by mode.
	OwnerNone Owner = "none"
)

// A User is a user and a group of the jail's.
type User struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}
