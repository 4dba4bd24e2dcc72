// Package inside makes the file in which a jail reads what it was refused, where policy lets it:
// its own refusals and what its operator would write to allow each, and nothing that it could not
// have seen itself. No path or id of the host's is in it, no name of a rule that it did not meet,
// and no reason, whose words may hold any of them.
package inside

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/observe/journal"
)

// maxSize bounds the file, in bytes.
const maxSize = 64 << 10

// Bounds of what is listed.
const (
	maxDenials = 128
	maxText    = 300
)

// A Denial is what was refused.
type Denial struct {
	Kind  string `json:"kind"`
	What  string `json:"what"`
	Errno string `json:"errno,omitempty"`
	Count uint64 `json:"count"`
	// Last is when it happened last.
	Last string `json:"last,omitempty"`
	// Meaning is what the kind means, and Remedy is what the operator would write.
	Meaning string `json:"meaning"`
	Remedy  string `json:"ask,omitempty"`
}

// A Notice is the file's content.
type Notice struct {
	Schema  string   `json:"schema"`
	About   string   `json:"about"`
	Updated string   `json:"updated"`
	Denied  []Denial `json:"denied"`
	More    int      `json:"more,omitempty"`
	Grants  []string `json:"mayAsk"`
}

const about = "What this jail was refused, as far as its host had looked when it wrote this. It is read-only here. Nothing in it can be changed from inside; the operator can."

// shown are the kinds that a jail may read, with the part of an event that it knows itself. Others
// name files of the host's, or what another did.
var shown = map[journal.Kind]func(*journal.Event) string{
	journal.PrivilegeDenied: field, journal.NameRefused: target, journal.ConnectRefused: target, journal.CredentialRefused: target,
	journal.SyscallRefused: call, journal.SyscallKilled: call, journal.ModuleRefused: none, journal.PtraceRefused: none,
	journal.LimitOOM: none, journal.LimitMemory: none, journal.LimitHigh: none, journal.LimitPids: none, journal.LimitCPU: none,
	journal.LimitLayer: none, journal.LimitInodes: none,
}

func none(*journal.Event) string { return "" }

func call(e *journal.Event) string {
	return cmp.Or(e.Syscall, (&journal.Event{Number: e.Number}).What())
}

func target(e *journal.Event) string {
	return (&journal.Event{Name: e.Name, Address: e.Address, Port: e.Port}).What()
}

// field is the place in the container's configuration, without what it was to be.
func field(e *journal.Event) string { return e.Target }

// grants are what the operator can allow, whatever was refused.
var grants = []string{
	"network.allow: a name and port, or a preset such as @pypi or @npm (`agentjail network check ID NAME:PORT` shows whether it is allowed)",
	"network.publish: a port of this jail's to be connected to",
	"credentials: one that is set in requests to a host, and never readable here",
	"limits.memory, limits.pids, root.size: more of them",
	"seccomp.profile: another list of system calls (`agentjail seccomp show`)",
}

// Of makes the file of a jail's events.
func Of(events []journal.Event, now time.Time) []byte {
	n := Notice{Schema: "agentjail.denials/1", About: about, Updated: journal.At(now), Denied: []Denial{}, Grants: grants}
	at := map[string]int{}
	for i := range events {
		e := &events[i]
		words, known := shown[e.Kind]
		if !known {
			continue
		}
		k := e.Kind.Info()
		what := printable.Line(words(e), maxText)
		key := e.Kind.String() + "\x00" + what
		pos, there := at[key]
		if !there {
			if len(n.Denied) == maxDenials {
				n.More++
				continue
			}
			pos = len(n.Denied)
			at[key] = pos
			n.Denied = append(n.Denied, Denial{
				Kind: e.Kind.String(), What: what, Errno: printable.Line(e.Errno, 20), Meaning: k.Meaning,
				Remedy: remedy(e, k),
			})
		}
		n.Denied[pos].Count += max(e.Count, 1)
		n.Denied[pos].Last = printable.Line(e.Time, 40)
	}
	return n.bytes()
}

// remedy is the kind's remedy with the event's own words that the jail knows.
func remedy(e *journal.Event, k *journal.KindInfo) string {
	if strings.Contains(k.Remedy, "agentjail ") { // a command of the host's
		return ""
	}
	own := journal.Event{
		Kind: e.Kind, Ring: e.Ring, Name: cmp.Or(e.Name, e.Address), Port: e.Port, Syscall: e.Syscall, Credential: e.Credential,
		Target: field(e),
	}
	if own.Complete() != nil {
		return ""
	}
	return printable.Line(own.Remedy, maxText)
}

// bytes is the file, within its bound.
func (n *Notice) bytes() []byte {
	for {
		data, err := json.MarshalIndent(n, "", "  ")
		if err != nil {
			return nil // no type of it fails
		}
		if len(data) < maxSize || len(n.Denied) == 0 {
			return append(data, '\n')
		}
		half := len(n.Denied) / 2
		n.More += len(n.Denied) - half
		n.Denied = slices.Clip(n.Denied[:half])
	}
}
