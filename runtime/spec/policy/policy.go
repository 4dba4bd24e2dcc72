// Package policy describes the rights that the host's owner allows a jail to have. A policy is
// read from a root-owned TOML file; nothing that travels with a container can widen it.
//
// # Layers
//
// The built-in defaults, the file's top level, a named policy ([policies.NAME]), a project's own
// file, a container's annotations: each may change the layers before it, and the last two may only
// tighten them (narrow.go). Explain returns each value with the layer that set it.
//
// # A new key
//
// A field of Policy, and a row of Keys with its text, its values and the rule by which a container
// may tighten it. The parser, the documentation, `policy show` and the JSON schema follow Keys.
package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/seccomp"
)

// DefaultPath is where the host's policy lives. A missing file there, or /dev/null in its place,
// means Default.
const DefaultPath = "/etc/agentjail/config.toml"

// Values of OnLoosen: the answers to a bundle that requests more than policy allows.
const (
	LoosenStrip  = "strip"  // start without the grant and report it
	LoosenRefuse = "refuse" // do not start
)

// Mappings of container ids to the host's.
const (
	MapRange  = "range"  // 0..65535 to an exclusive range
	MapNobody = "nobody" // 0 to the host's 65534, the rest to an exclusive range
)

// Policy is everything the host's owner can decide. Sizes are bytes.
type Policy struct {
	// Delegate is the runtime that executes the hardened bundle: "auto",
	// a name of traits.Names, or an absolute path.
	Delegate string `toml:"delegate" json:"delegate"`
	// Passthrough hands every call to the delegate as it came: nothing is
	// hardened. Only a profile can report it, never the file for all callers.
	Passthrough bool `toml:"passthrough" json:"passthrough,omitempty"`
	// OnLoosen is LoosenStrip or LoosenRefuse.
	OnLoosen string   `toml:"on_loosen" json:"onLoosen"`
	Userns   Userns   `toml:"userns" json:"userns"`
	Root     Root     `toml:"root" json:"root"`
	Tmpfs    Tmpfs    `toml:"tmpfs" json:"tmpfs"`
	Limits   Limits   `toml:"limits" json:"limits"`
	Binds    Binds    `toml:"binds" json:"binds"`
	Devices  Devices  `toml:"devices" json:"devices"`
	Seccomp  Seccomp  `toml:"seccomp" json:"seccomp"`
	AppArmor AppArmor `toml:"apparmor" json:"apparmor"`
	Landlock Landlock `toml:"landlock" json:"landlock"`
	Process  Process  `toml:"process" json:"process"`
	Network  Network  `toml:"network" json:"network"`
	// Credentials are keys that a jail with a network by name can use and not read.
	Credentials credential.Set `toml:"credentials" json:"credentials,omitempty"`
	Shim        Shim           `toml:"shim" json:"shim"`
	Journal     Journal        `toml:"journal" json:"journal"`
	Workspace   Workspace      `toml:"workspace" json:"workspace"`
	Disk        Disk           `toml:"disk" json:"disk"`
	EBPF        EBPF           `toml:"ebpf" json:"ebpf,omitzero"`
	// Origin is where it was loaded from; nil for one that was not.
	Origin *Origin `toml:"-" json:"origin,omitempty"`
}

// Userns decides the id mapping.
type Userns struct {
	Map string `toml:"map" json:"map"` // MapRange or MapNobody
	// Pool is FIRST:COUNT, the host ids from which each jail gets its own
	// 65536. FIRST is a multiple of 65536.
	Pool idmap.Pool `toml:"pool" json:"pool"`
	// IDs are users and groups from 65536 on that each jail has, beside those that its bundle and
	// image name.
	IDs []string `toml:"ids" json:"ids,omitempty"`
}

// Block is the mapping for a block of the pool.
func (u Userns) Block(block int) idmap.Map {
	return idmap.ForBlock(u.Pool, u.Map == MapNobody, block)
}

// checkIDs refuses ids that a jail has anyway or cannot have.
func (u Userns) checkIDs() error {
	if len(u.IDs) > idmap.MaxHigh {
		return fmt.Errorf("userns.ids has %d ids, and a jail can have %d", len(u.IDs), idmap.MaxHigh)
	}
	for _, text := range u.IDs {
		if id, ok := AccountID(text); !ok || id < idmap.RangeSize {
			return fmt.Errorf("userns.ids: %q is not a number from %d to %d", text, idmap.RangeSize, uint32(math.MaxUint32-1))
		}
	}
	return nil
}

// addIDs adds ids of an annotation, which take nothing from others: they are mapped to host ids of
// the jail's own block.
func (u *Userns) addIDs(text string) (bool, error) {
	more := Userns{IDs: slices.Clone(u.IDs)}
	for part := range strings.SplitSeq(text, ",") {
		if id := strings.TrimSpace(part); !slices.Contains(more.IDs, id) {
			more.IDs = append(more.IDs, id)
		}
	}
	if err := more.checkIDs(); err != nil {
		return false, err
	}
	u.IDs = more.IDs
	return true, nil
}

// Root caps the ephemeral layer over the image.
type Root struct {
	// Backing is where the layer is: RootMemory, of Size bytes, or RootDisk, of Disk bytes.
	Backing string `toml:"backing" json:"backing"`
	Size    Size   `toml:"size" json:"size"`
	Disk    Size   `toml:"disk" json:"disk"`
	Inodes  int64  `toml:"inodes" json:"inodes"`
	// EngineLinks lets an engine follow symbolic links in its view of a jail's root, which
	// `docker cp` through a link of the image needs. Without it, a lookup by the engine cannot
	// leave the root while the jail exchanges links (nosymfollow, Linux 5.14 for single mounts;
	// CVE-2026-41568, CVE-2026-42306).
	EngineLinks bool `toml:"engine_links" json:"engineLinks"`
}

// Tmpfs caps every other tmpfs, each on its own.
type Tmpfs struct {
	// Size is the size of a tmpfs for which no size is requested, and Max the largest that can be
	// requested; 0 is the bound that MaxTmpfs describes.
	Size   Size  `toml:"size" json:"size"`
	Max    Size  `toml:"max" json:"max,omitempty"`
	Inodes int64 `toml:"inodes" json:"inodes"`
}

// checkMax refuses a largest size below the size that each tmpfs has by itself.
func (t Tmpfs) checkMax() error {
	if t.Max < 0 || t.Max > 0 && t.Max < t.Size {
		return fmt.Errorf("tmpfs.max = %q: less than tmpfs.size = %q", t.Max, t.Size)
	}
	return nil
}

// MaxMemory is the memory limit on a host with that much memory, or 0 for none. A limit above the
// host's memory would be none.
func (p Policy) MaxMemory(host int64) Size {
	if p.Limits.Memory > 0 && host > 0 {
		return min(p.Limits.Memory, Size(host/4*3))
	}
	return p.Limits.Memory
}

// MaxTmpfs is the size that no tmpfs of a jail exceeds on a host with that much memory. Without
// tmpfs.max it is the memory limit, to which the pages of a tmpfs count. counted reports that the
// host has a memory control group: without one, sizes are the only bound, and no tmpfs is larger
// than tmpfs.size.
func (p Policy) MaxTmpfs(host int64, counted bool) Size {
	most := Size(host / 4 * 3)
	switch {
	case !counted || host <= 0:
		return p.Tmpfs.Size
	case p.Tmpfs.Max > 0:
		return min(p.Tmpfs.Max, most)
	case p.Limits.Memory > 0:
		return min(p.Limits.Memory, most)
	}
	return most
}

// Limits are upper bounds; a bundle may request less. Zero means that policy
// sets no bound.
type Limits struct {
	Pids    int64   `toml:"pids" json:"pids"`
	Memory  Size    `toml:"memory" json:"memory"`
	Swap    Size    `toml:"swap" json:"swap"` // beyond memory
	CPUs    float64 `toml:"cpus" json:"cpus"`
	IORead  Size    `toml:"io_read" json:"ioRead"` // bytes per second and device
	IOWrite Size    `toml:"io_write" json:"ioWrite"`
	NoFile  uint64  `toml:"nofile" json:"nofile"`
	MemLock Size    `toml:"memlock" json:"memlock"`
	Sockets Size    `toml:"sockets" json:"sockets"` // socket buffers, on control groups of version 1
	Mounts  int     `toml:"mounts" json:"mounts"`   // mounts in one bundle
}

// Binds decides which host paths may be mounted, and which files of them are protected.
type Binds struct {
	// Allow names host paths that may be mounted although they are refused by default; each
	// covers all paths below.
	Allow []string `toml:"allow" json:"allow"`
	// Root is the handling of a directory of the host's root that is mounted writable:
	// RootRefuse, RootNobody or RootAllow.
	Root string `toml:"root" json:"root"`
	// Owner is the user of a jail that owns mounted files: OwnerProcess, or a user in the form of
	// CheckOwner.
	Owner string `toml:"owner" json:"owner"`
	// SetID is the handling of a writable directory with programs that run as its owner, where
	// that is an account of the system's: SetIDReport or SetIDRefuse.
	SetID string `toml:"setid" json:"setid"`
	// Protect protects the files that the host runs by itself, in every directory that jails may
	// write to (protect.Table).
	Protect bool `toml:"protect" json:"protect"`
	// Unprotect names protected paths that a jail may change: a path of the table, or an absolute
	// one with all below it.
	Unprotect []string `toml:"unprotect" json:"unprotect,omitempty"`
	// Lost is the handling of a jail when a program of the host's removes the protection of a
	// path: LostReport or LostPause.
	Lost string `toml:"lost" json:"lost"`
	// Hide are patterns of names that are covered in mounted directories.
	Hide []string `toml:"hide" json:"hide,omitempty"`
	// Sockets are patterns of the host's sockets and pipes that jails may use (pathname.Fits).
	Sockets []string `toml:"sockets" json:"sockets,omitempty"`
}

// The handling of a jail that has lost a protected path, in addition to the alert in its journal.
const (
	LostReport = "report"
	LostPause  = "pause"
)

// The handling of set-id programs in a mounted directory.
const (
	SetIDReport = "report"
	SetIDRefuse = "refuse"
)

// A jail's rights in a directory that belongs to the host's root.
const (
	RootRefuse = "refuse" // nothing: no jail is started
	RootNobody = "nobody" // the rights of any user of the host
	RootAllow  = "allow"  // root's rights on files
)

// Devices lists device nodes beyond the standard ones.
type Devices struct {
	Allow []string `toml:"allow" json:"allow"`
}

// Seccomp picks the system call filter.
type Seccomp struct {
	Profile     string `toml:"profile" json:"profile"`
	OnViolation string `toml:"on_violation" json:"onViolation"` // "errno" or "kill"
	// Only is a file with a list of calls that narrows the profile (seccomp.List), and List its
	// content when the policy was read.
	Only string        `toml:"only" json:"only,omitempty"`
	List *seccomp.List `toml:"-" json:"list,omitempty"`
}

// load reads the file of Only.
func (s *Seccomp) load() error {
	if s.Only == "" {
		return nil
	}
	data, err := readTrusted(s.Only)
	if err == nil {
		s.List, err = seccomp.ParseList(data)
	}
	if err != nil {
		return fmt.Errorf("seccomp.only = %q: %w", s.Only, err)
	}
	return nil
}

// AppArmor names the profile that is loaded and set.
type AppArmor struct {
	Profile string `toml:"profile" json:"profile"`
	// Required refuses to start on a kernel that has neither AppArmor nor
	// SELinux; otherwise the report names the protection as missing.
	Required bool `toml:"required" json:"required"`
}

// Landlock is the domain that every process of a jail is in.
type Landlock struct {
	// Required refuses to start on a kernel without Landlock of version 2
	// (Linux 5.19); otherwise the report names the protection as missing.
	Required bool `toml:"required" json:"required"`
}

// Process decides the rights of a jail's processes over themselves.
type Process struct {
	// DenyWriteExecute refuses memory that was writable and becomes executable
	// (PR_SET_MDWE(2const), Linux 6.3). Just-in-time compilers need that: node,
	// java, browsers.
	DenyWriteExecute bool `toml:"deny_write_execute" json:"denyWriteExecute"`
	// Environment sets missing variables of a process that keep programs from using features that
	// no jail has: TAR_OPTIONS, ASAN_OPTIONS, LSAN_OPTIONS.
	Environment bool `toml:"environment" json:"environment"`
	// Capabilities are those over the jail's own user namespace that a process of the jail's root
	// keeps where its bundle has them, too: entries of Grantable, without CAP_. Default is none.
	Capabilities []string `toml:"capabilities" json:"capabilities,omitempty"`
}

// The content of a jail's network namespace.
const (
	NetworkNone   = "none"   // nothing but lo
	NetworkEngine = "engine" // the engine's interfaces
	NetworkNames  = "names"  // only lo, and a helper that connects to the names of Allow
)

// The values of network.approval.
const (
	ApprovalPrompt = "prompt" // an attached process decides on a name that no rule has
	ApprovalOff    = "off"    // such a name is refused
)

// approvalModes are all values of network.approval, the loosest first.
var approvalModes = []string{ApprovalPrompt, ApprovalOff}

// NetworkModes are all that network.mode can be (runtime/network/modes).
var NetworkModes = []string{NetworkNone, NetworkEngine, NetworkNames}

// Network decides the allowed content of the jail's network namespace.
type Network struct {
	// Mode is one of NetworkModes. It comes from the host's owner
	// alone: no annotation chooses it.
	Mode string `toml:"mode" json:"mode"`
	// Filter is "required" or "optional": whether a kernel without nf_tables
	// may run jails. Without it, an interface that is plugged in later is only
	// held by routing rules, which a program that binds to it can go around.
	Filter string `toml:"filter" json:"filter"`
	// Allow and Deny are the rules of mode "names" (runtime/spec/netrules): allowed and denied
	// destinations, by name and port.
	Allow []string `toml:"allow" json:"allow,omitempty"`
	Deny  []string `toml:"deny" json:"deny,omitempty"`
	// Servers are the name servers that the helper of mode "names" queries; without any, the
	// host's.
	Servers []string `toml:"servers" json:"servers,omitempty"`
	// Approval is one of Approvals: whether a name that no rule has can be decided on while a
	// jail of mode "names" waits. "" is ApprovalOff.
	Approval string `toml:"approval" json:"approval,omitempty"`
	// ApprovalCommand decides in place of a person, for `agentjail watch --command`: a program's
	// absolute path and its arguments (package approver).
	ApprovalCommand []string `toml:"approval_command" json:"approvalCommand,omitempty"`
	// Publish are the ports that a jail of mode "names" may publish (runtime/spec/publish), and
	// Published those that it does, by a container's annotation or the command line.
	Publish   []string `toml:"publish" json:"publish,omitempty"`
	Published []string `toml:"-" json:"published,omitempty"`
}

// Rules parses Allow and Deny.
func (n Network) Rules() (*netrules.Set, error) {
	set, err := netrules.Parse(n.Allow, n.Deny, source())
	if err != nil {
		return nil, fmt.Errorf("network.allow, network.deny: %w", err)
	}
	return set, nil
}

// Nothing has a jail reach nothing but lo, whatever Mode was.
func (n *Network) Nothing() { *n = Network{Mode: NetworkNone, Filter: n.Filter, Approval: ApprovalOff} }

// allowNames lets a jail reach these names and no others, whatever the value of Mode; names of
// Deny stay denied.
func (n *Network) allowNames(entries []string) error {
	n.Mode, n.Allow = NetworkNames, entries
	if _, err := n.Rules(); err != nil {
		return err
	}
	return n.expand()
}

// narrow is allowNames for a container, whose names Allow must cover.
func (n *Network) narrow(text string) (bool, error) {
	if n.Mode != NetworkNames {
		return false, nil
	}
	set, err := n.Rules()
	if err == nil {
		set, err = set.Narrow(entries(text))
	}
	if err != nil {
		return false, err
	}
	n.Allow, n.Deny = set.Entries(), set.Denied()
	return true, nil
}

// entries splits an annotation into entries, which semicolons or line ends separate.
func entries(text string) (out []string) {
	for e := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		if e = strings.TrimSpace(e); e != "" {
			out = append(out, e)
		}
	}
	return out
}

// defaultDelegate can be set by the build (-ldflags -X), for a distribution that
// has agentjail depend on one, and for tests.
var defaultDelegate = "auto"

// defaultPool can be set by the build, too, as FIRST:COUNT: two installs on one
// host must not have the same ids (tests, beside a host's own jails).
var defaultPool string

// pool is the default one. One that the build has wrong is empty, which Check refuses.
func pool() (p idmap.Pool) {
	if defaultPool == "" {
		return idmap.DefaultPool()
	}
	_ = p.UnmarshalText([]byte(defaultPool))
	return p
}

// Default is the policy of a host without a config file.
func Default() Policy {
	return Policy{
		Delegate: defaultDelegate,
		OnLoosen: LoosenStrip,
		// systemd's documentation calls 1879048192..2147483647 unused; this
		// stays below its foreign range (0x7ffe0000).
		Userns: Userns{Map: MapRange, Pool: pool()},
		Root:   Root{Backing: RootMemory, Size: 1 << 30, Disk: 8 << 30, Inodes: 1 << 18, EngineLinks: true},
		Tmpfs:  Tmpfs{Size: 256 << 20, Inodes: 1 << 14},
		Limits: Limits{
			Pids: 1024, Memory: 4 << 30, Swap: 0, CPUs: 4,
			IORead: 400 << 20, IOWrite: 200 << 20,
			NoFile: 16384, MemLock: 256 << 10, Sockets: 64 << 20, Mounts: 256,
		},
		Binds:     Binds{Root: RootRefuse, Owner: OwnerProcess, SetID: SetIDReport, Protect: true, Lost: LostReport},
		Seccomp:   Seccomp{Profile: "default", OnViolation: "errno"},
		AppArmor:  AppArmor{Profile: DefaultAppArmor},
		Process:   Process{Environment: true},
		Network:   Network{Mode: NetworkNone, Filter: "required", Approval: ApprovalOff},
		Journal:   Journal{Enabled: true, Size: 4 << 20, Keep: 1000, KeepSize: 256 << 20, Receipt: ReceiptBrief, Inside: InsideOff},
		Workspace: Workspace{Size: 2 << 30, Files: 1 << 18, KeepFor: Span(30 * 24 * time.Hour)},
		Disk:      Disk{Layers: 256, Free: 512 << 20},
	}
}

// builtins are the named policies that need no [policies.NAME]; one in the file is applied on
// top. Root chooses a named policy by installing or configuring it.
var builtins = map[string]func(*Policy){
	netPolicy: func(*Policy) {}, // Network.listed
	"debug":   func(p *Policy) { p.Seccomp.Profile = "debug" },
	"service": func(p *Policy) {
		p.Seccomp.Profile = "service"
		p.Process.Capabilities = Grantable() // and matchAppArmor
	},
}

// init adds a named policy for each boundary.
func init() {
	for _, delegate := range traits.Sandboxes() {
		builtins[traits.Of(delegate).Sandbox] = func(p *Policy) { p.Delegate = delegate }
	}
}

// netPolicy is the built-in policy for the names that network.allow lists.
const netPolicy = "net"

// listed sets the mode of netPolicy where that policy has none of its own: a network by name, if
// any name is listed. An empty list opens nothing: the engine's network needs a setting in the
// file for every jail, or in the named policy.
func (n *Network) listed() {
	switch {
	case len(n.Allow)+len(n.Publish) > 0:
		n.Mode = NetworkNames
	case n.Mode == NetworkNames:
		n.Mode = NetworkNone
	}
}

// NamesNothing reports whether a policy is the built-in "net" and has no network. The person who
// chose that policy may not expect this.
func (p Policy) NamesNothing() bool {
	return p.Origin != nil && p.Origin.Name == netPolicy && p.Network.Mode == NetworkNone
}

// NothingNamed is the reason in the report of such a policy.
const NothingNamed = `the policy net allows only the names that network.allow lists, and it lists none; for the engine's network: network.mode = "engine" in [policies.net]`

// NeedsLandlock reports whether a jail without a Landlock domain must not start. Where programs
// may trace each other, the domain protects a process that is only entering the jail, whatever
// that process's ids and flags are at the time.
func (p Policy) NeedsLandlock() bool {
	return p.Landlock.Required || seccomp.Traces(p.Seccomp.Profile)
}
