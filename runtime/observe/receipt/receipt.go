// Package receipt makes the account of one run: the jail's identity, its actions and refusals, its
// use of resources, and its removal.
//
// A receipt is made of the jail's journal, and of the jail's record while there is one. Reading
// changes nothing. A jail can influence names, paths and arguments in a receipt: they are hostile,
// and Text and HTML escape them.
package receipt

import (
	"slices"
	"strconv"
	"time"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/rings"
)

// schema names the form of a receipt's JSON. Fields are only ever added to it.
const schema = "agentjail.receipt/1"

// State is the last known state of a jail.
type State string

// The states. Refused is of a jail that was not made. Unfinished is of a jail that is gone without
// having been deleted: a crash, or another boot.
const (
	Refused    State = "refused"
	Running    State = "running"
	Ended      State = "ended"
	Unfinished State = "unfinished"
)

// A Receipt is the account of one run.
type Receipt struct {
	Schema   string    `json:"schema"`
	State    State     `json:"state"`
	Made     time.Time `json:"made"` // when this receipt was made
	Identity Identity  `json:"identity"`
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended,omitzero"`
	// Seconds is how long the jail was, until Ended or Made.
	Seconds  float64    `json:"seconds"`
	Exit     Exit       `json:"exit"`
	Rings    []Ring     `json:"rings"`
	Touched  Touched    `json:"touched"`
	Denied   []Denial   `json:"denied,omitempty"`
	Used     Used       `json:"used"`
	Limits   []Limit    `json:"limits,omitempty"`
	Teardown Teardown   `json:"teardown"`
	Events   []Event    `json:"events,omitempty"` // in order, the first and the last of them
	Omitted  int        `json:"omittedEvents,omitempty"`
	Journal  Provenance `json:"journal"`
}

// Identity reports which jail it was. The text of a receipt shows each field by its label.
type Identity struct {
	ID     string `json:"id" label:"id"`
	Name   string `json:"name,omitempty" label:"name"`       // the engine's, where it has one
	Image  string `json:"image,omitempty" label:"image"`     // the engine's name of it
	Engine string `json:"engine,omitempty" label:"engine"`   // by the bundle's place
	Run    string `json:"run,omitempty" label:"run"`         // distinguishes runs with the same id
	Root   string `json:"root,omitempty" label:"image root"` // the image's root file system
	Bundle string `json:"bundle,omitempty" label:"bundle"`
	// PolicyName is the named policy's, "" for none.
	PolicyName string `json:"policyName,omitempty" label:"policy"`
	// Filter is the profile of system calls.
	Filter string `json:"seccomp,omitempty" label:"system calls"`
	// Capabilities are what the jail's root keeps, with commas between; "" for none.
	Capabilities string `json:"capabilities,omitempty" label:"capabilities"`

	Delegate string `json:"delegate,omitempty" label:"delegate"`
	// Boundary names the kernel that answered the jail's system calls (docs/boundaries.md).
	Boundary string   `json:"boundary,omitempty" label:"boundary"`
	Command  []string `json:"command,omitempty"`
	Dir      string   `json:"cwd,omitempty" label:"working directory"`
	User     string   `json:"user,omitempty" label:"user"`
	// Policy and Config are hashes, "sha256:" and 64 digits: of the policy in effect for this jail,
	// and of the hardened config.json.
	Policy string `json:"policyHash,omitempty" label:"policy in effect"`
	Config string `json:"configHash,omitempty" label:"hardened config.json"`
	// Version is agentjail's.
	Version string `json:"version,omitempty" label:"agentjail"`
}

// Exit reports how the jail's first process ended.
type Exit struct {
	// Status is nil where it is not known: with most engines their own shim waits for the process.
	Status *int   `json:"status,omitempty"`
	Signal string `json:"signal,omitempty"`
	// Unknown reports why neither is known of a process that has ended.
	Unknown string `json:"unknown,omitempty"`
	// Engine is the status that Docker's record of the container has, where the journal has none.
	// It is no part of the journal.
	Engine *int `json:"engineStatus,omitempty"`
	// Killed reports that the kernel killed a process of the jail's for want of memory: with a
	// status of 137, the first one.
	Killed bool `json:"oomKilled,omitempty"`
}

// A Ring is what is known of one ring's protections at two moments.
type Ring struct {
	Ring  rings.Ring `json:"ring"`
	Name  string     `json:"name"`
	Start Look       `json:"start"`
	End   Look       `json:"end"`
}

// A Look is what was seen of a ring.
type Look struct {
	// By is the source: the report of hardening and the init step at the start, `agentjail inspect`
	// later. Empty where nothing was looked at.
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Holds   int       `json:"holds"`
	Broken  []string  `json:"broken,omitempty"`
	Missing []string  `json:"missing,omitempty"`
	Set     int       `json:"set,omitempty"`    // fields of the bundle that were set or lowered
	Denied  int       `json:"denied,omitempty"` // privileges that were requested and denied
}

// An Arrival is something in a mounted directory that the host runs, or is led by, and that came or
// was changed since the jail was made: by it or by another process.
type Arrival struct {
	// Kind is "gitlink", "repository", "hook" or "setting".
	Kind string `json:"kind"`
	Path string `json:"path"` // in the jail
	Why  string `json:"why"`
}

// Touched is what was written.
type Touched struct {
	// Files are of the jail's layer, as `agentjail diff` lists them.
	Files []journal.File `json:"files,omitempty"`
	// More reports that there were more files than are listed.
	More bool `json:"more,omitempty"`
	// Known is false where the layer was gone before it was looked at.
	Known bool `json:"known"`
	// Writable are the places of the host's directories that could be written to.
	Writable []string `json:"writable,omitempty"`
	// Arrived is what of it the host runs, or is led by, the most dangerous first, and ArrivedTotal
	// how many there are of these.
	Arrived      []Arrival `json:"arrived,omitempty"`
	ArrivedTotal int       `json:"arrivedTotal,omitempty"`
	// ArrivedUnseen is why in mounted directories something of the kind could be there that is not
	// listed.
	ArrivedUnseen []string `json:"arrivedUnseen,omitempty"`
	// Stale are repositories of them from which a commit of the jail can revert protected files.
	Stale []Stale `json:"stale,omitempty"`
	// Applied is what was applied of views, each time.
	Applied []Applied `json:"applied,omitempty"`
	// Lost are protected paths that became the jail's to write while it ran.
	Lost []Lost `json:"lost,omitempty"`
	// Mounted is what was changed in them since the jail was made, by any process: they are the
	// host's own.
	Mounted []Mounted `json:"mounted,omitempty"`
	Bytes   int64     `json:"layerBytes,omitempty"`
	Inodes  int64     `json:"layerInodes,omitempty"`
}

// An Applied is what was written to a directory of a view's changes.
type Applied struct {
	At        time.Time `json:"at"`
	View      string    `json:"view"`
	Directory string    `json:"directory"` // on the host
	Paths     int       `json:"paths"`
	// Sums is the hash of the list of the regular files' hashes (journal.ViewApplied).
	Sums string `json:"sums,omitempty"`
}

// A Stale is a repository in which git could not replace tracked protected files: it kept those of
// another branch.
type Stale struct {
	Repository string `json:"repository"` // in the jail
	journal.Stale
}

// A Lost is a protected path whose protection ended while the jail ran.
type Lost struct {
	Path string `json:"path"` // in the jail
	Why  string `json:"why"`
}

// A Denial is what was refused, of one kind and rule.
type Denial struct {
	Kind   string    `json:"kind"`
	Ring   string    `json:"ring,omitempty"`
	What   string    `json:"what"`
	Rule   string    `json:"rule,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Remedy string    `json:"remedy,omitempty"`
	Count  int       `json:"count"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	// RingPassed: a filter of ring 0 let it pass, and an eBPF program refused it. It is shown
	// first.
	RingPassed bool `json:"ringPassed,omitempty"`
}

// Used is what the jail used.
type Used struct {
	Names       []Name  `json:"names,omitempty"`
	Credentials []Count `json:"credentials,omitempty"` // by name, never a value
	// Decisions are those on names that no rule has (network.approval), in their order.
	Decisions []Decision `json:"decisions,omitempty"`
	journal.Amounts
	Execs    int      `json:"execs,omitempty"`
	Programs []string `json:"programs,omitempty"`
}

// A Decision is one on a name that no rule has.
type Decision struct {
	At      time.Time `json:"at"`
	Name    string    `json:"name"`
	Port    int       `json:"port"`
	Allowed bool      `json:"allowed"`
	Span    string    `json:"span"` // "once", "for 1h0m0s" or "until the jail's end"
	By      string    `json:"by"`
}

// A Name is a name and port that was connected to.
type Name struct {
	Name  string `json:"name"`
	Port  int    `json:"port,omitempty"`
	Count int    `json:"count"`
	Sent  int64  `json:"sentBytes,omitempty"`
	Got   int64  `json:"receivedBytes,omitempty"`
	Rule  string `json:"rule,omitempty"`
}

// A Count is how often something happened.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// A Limit is one that the jail has hit.
type Limit struct {
	Name   string `json:"name"`
	Count  int64  `json:"count"`
	Remedy string `json:"remedy,omitempty"`
	Value  string `json:"value,omitempty"`
}

// Teardown is what became of what had been made for the jail.
type Teardown struct {
	// Done reports that nothing remains of what was looked for.
	Done bool      `json:"done"`
	At   time.Time `json:"at,omitzero"`
	// Gone and Remains are what was looked for after the removal.
	Gone    []journal.Part `json:"gone,omitempty"`
	Remains []journal.Part `json:"remains,omitempty"`
	// By reports who removed it.
	By string `json:"by,omitempty"`
}

// An Event is a line of the timeline.
type Event struct {
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"`
	Text   string    `json:"text"`
	Denied bool      `json:"denied,omitempty"`
}

// Provenance reports which journal the receipt was made of.
type Provenance struct {
	Events uint64 `json:"events"`
	Last   string `json:"lastHash,omitempty"`
	// Lost is how many events are known not to have been recorded.
	Lost int64 `json:"lost,omitempty"`
	// Verified is nil where the chain was not looked at.
	Verified *bool  `json:"verified,omitempty"`
	Problem  string `json:"problem,omitempty"`
}

// value is the limit that was met, of memory in its unit.
func (l *Limit) value() string {
	n, err := strconv.ParseInt(l.Value, 10, 64)
	kinds := []journal.Kind{journal.LimitOOM, journal.LimitMemory, journal.LimitHigh, journal.LimitLayer}
	if err != nil || !slices.ContainsFunc(kinds, func(k journal.Kind) bool { return k.String() == l.Name }) {
		return l.Value
	}
	return size(n)
}
