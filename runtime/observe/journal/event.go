// Package journal records the events of each jail in a file that the jail cannot reach: lines of
// JSON, written by the host alone, chained by hashes, bounded, and kept for a while after the jail
// was deleted. All programs append an Event, and all have the same reader. The table in kinds.go
// describes every kind, detail.go its payload, and docs/journal.md the schema.
//
// # Hostile content
//
// A jail chooses names, paths and arguments in its events. Append cleans and cuts them.
//
// # A new kind
//
// A constant and a row in kinds.go, and a struct in detail.go if the kind has a payload. The
// receipt, `why`, the exporters and docs/journal.md follow the table.
package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/rings"
)

// version is the schema's, in each event. A field keeps its meaning within a version; new ones may
// come.
const version = 1

// Bounds of an event, in characters, and of its line, in bytes.
const (
	maxText   = 1024
	maxList   = 64
	maxLine   = 16 << 10
	maxDetail = 8 << 10 // of a Detail's text together
)

// An Event is one line of a journal. The schema is flat: every field has a name of its own, and
// those that a kind does not use are left out.
type Event struct {
	// Version, Seq, Time and Prev are set by Append. Time is kept if it is set.
	Version int    `json:"v"`
	Seq     uint64 `json:"seq"`
	Time    string `json:"time"` // RFC 3339 with nanoseconds, UTC
	// Jail and Key name the jail: its id, and the name of its record.
	Jail string `json:"jail"`
	Key  string `json:"key,omitempty"`
	// Kind sets Ring (unless the kind's is Varies), Verdict, Class, Activity, Disposition and
	// Severity.
	Kind        Kind       `json:"kind"`
	Ring        rings.Ring `json:"ring"` // 0, 1, 2, or None
	Verdict     string     `json:"verdict"`
	Class       int        `json:"class_uid"`
	Activity    int        `json:"activity_id"`
	Disposition int        `json:"disposition_id"`
	Severity    int        `json:"severity_id"`
	// Source is one of the constants Source….
	Source string `json:"source"`
	// Count is how many times it happened, where one line stands for several; 0 is once.
	Count uint64 `json:"count,omitempty"`

	// The process: its id on the host, its user on the host, its program (a path where known, else
	// the kernel's name of 15 characters).
	Pid     int     `json:"pid,omitempty"`
	UID     *uint32 `json:"uid,omitempty"`
	Program string  `json:"program,omitempty"`
	// PPid and Parent are the process that started it.
	PPid   int    `json:"ppid,omitempty"`
	Parent string `json:"parent,omitempty"`
	// Argv, Cwd and Hash ("sha256:…" of the file) are of a program that is run.
	Argv []string `json:"argv,omitempty"`
	Cwd  string   `json:"cwd,omitempty"`
	Hash string   `json:"hash,omitempty"`

	// Target is the object of the event if no other field has it: a field of config.json, a
	// protection, a capability, a hook, a class of objects.
	Target string `json:"target,omitempty"`
	// Path is a file, as the jail sees it where that is known.
	Path string `json:"path,omitempty"`
	// Name, Port and Address are the other end of a connection.
	Name    string `json:"name,omitempty"`
	Port    uint16 `json:"port,omitempty"`
	Address string `json:"address,omitempty"`
	// Credential is a credential's name, never its value.
	Credential string `json:"credential,omitempty"`
	Sent       int64  `json:"sent,omitempty"`
	Got        int64  `json:"got,omitempty"`
	Millis     int64  `json:"ms,omitempty"`

	// Syscall is a system call's name, with its number (of Arch, as seccomp numbers it) and
	// arguments in hexadecimal.
	Syscall   string   `json:"syscall,omitempty"`
	Number    *int     `json:"number,omitempty"`
	Arch      string   `json:"arch,omitempty"`
	Arguments []string `json:"arguments,omitempty"`
	// Errno is what the call returned, by name: "EPERM".
	Errno string `json:"errno,omitempty"`

	// Value and Limit are of a limit that was met.
	Value string `json:"value,omitempty"`
	Limit string `json:"limit,omitempty"`
	// Status is an exit status or the signal's name.
	Status string `json:"status,omitempty"`

	// Rule is what decided: an entry of the network's rules, a path's protection, or for a system
	// call "unlisted" or "argument".
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// ArgvOmitted reports that Argv and Cwd were left out, since the jail had its share of the
	// journal.
	ArgvOmitted bool `json:"argv_omitted,omitempty"`
	// Detail is the payload of a kind that has one; nil for others. Cut is how many entries of its
	// lists did not fit.
	Detail Detail `json:"detail,omitempty"`
	Cut    int    `json:"cut,omitempty"`
	// Policy is the hash of the policy that the jail was made with.
	Policy string `json:"policy,omitempty"`
	// Dropped is how many events are missing, in a line of kind journal.lost and the like.
	Dropped uint64 `json:"dropped,omitempty"`

	// Prev is the SHA-256 of the line before, without its line end; "" in a journal's first.
	Prev string `json:"prev"`
}

// At is an event's time for Event.Time.
func At(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

// HashOf is the hash of a file's content for Event.Hash.
func HashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// When is Time, or the zero time where it is none.
func (e *Event) When() time.Time {
	t, _ := time.Parse(time.RFC3339Nano, e.Time)
	return t
}

// Refused reports whether the event is a refusal, which `agentjail denied` shows.
func (e *Event) Refused() bool {
	return e.Verdict == VerdictRefused || e.Verdict == VerdictLimit || e.Verdict == VerdictAlert && e.Disposition == isBlocked
}

// texts are all fields that a jail may have influenced.
func (e *Event) texts() []*string {
	return []*string{
		&e.Time, &e.Jail, &e.Key, &e.Source, &e.Program, &e.Parent, &e.Cwd, &e.Hash, &e.Target, &e.Path, &e.Name, &e.Address,
		&e.Credential,
		&e.Syscall, &e.Arch, &e.Errno, &e.Value, &e.Limit, &e.Status, &e.Rule, &e.Reason, &e.Remedy, &e.Policy,
	}
}

// Clean makes all text of an event printable and cuts it.
func (e *Event) Clean() {
	for _, s := range e.texts() {
		*s = printable.Line(*s, maxText)
	}
	e.boundDetail(maxDetail)
	for _, list := range []*[]string{&e.Argv, &e.Arguments} {
		in, left := *list, maxText*2
		if len(in) == 0 {
			continue
		}
		out := make([]string, 0, min(len(in), maxList))
		for _, s := range in {
			if len(out) == maxList || left <= 0 {
				out = append(out, fmt.Sprintf("... %d more", len(in)-len(out)))
				break
			}
			s = printable.Line(s, min(maxText, left))
			left -= len(s)
			out = append(out, s)
		}
		*list = out
	}
}

// boundDetail puts a copy of the payload into its place that is clean and has at most max bytes of
// text.
func (e *Event) boundDetail(max int) {
	if e.Detail != nil {
		d, cut := cleaned(e.Detail, max)
		e.Detail, e.Cut = d, e.Cut+cut
	}
}

// Complete fills what follows from the kind, and the remedy where the event has none.
func (e *Event) Complete() error {
	k := e.Kind.Info()
	if e.Detail != nil && e.Detail.kind() != e.Kind {
		return fmt.Errorf("the detail of %s is of %s", e.Kind, e.Detail.kind())
	}
	if k.Name == "" {
		return fmt.Errorf("%d is no kind of event", e.Kind)
	}
	e.Version = version
	if k.Ring != Varies {
		e.Ring = k.Ring
	}
	e.Verdict, e.Class, e.Activity, e.Disposition, e.Severity = k.Verdict, k.Class, k.Activity, k.Disposition, k.Severity
	if e.Source == "" {
		e.Source = k.Sources[0]
	}
	switch {
	case e.Remedy != "":
	case e.Kind == ConnectRefused && e.Rule != "":
		// An entry allows the connection. Another entry would not permit the refused part.
		e.Remedy = e.fill("see the reason: {name}:{port} is allowed already")
	default:
		e.Remedy = e.fill(k.Remedy)
	}
	return nil
}

// fill puts the event's own words into a pattern.
func (e *Event) fill(pattern string) string {
	if !strings.Contains(pattern, "{") {
		return pattern
	}
	port := ""
	if e.Port != 0 {
		port = fmt.Sprint(e.Port)
	}
	return strings.NewReplacer("{jail}", e.Jail, "{name}", e.Name, "{port}", port, "{path}", e.Path, "{target}", e.Target,
		"{syscall}", e.Syscall, "{credential}", e.Credential, "{program}", e.Program, "{limit}", e.Limit).Replace(pattern)
}

// line is the event as a line of a journal, without its end.
func (e *Event) line() ([]byte, error) {
	data := e.encode(make([]byte, 0, 1024))
	if len(data) > maxLine {
		// Every field is bounded, but not the sum: what is long goes.
		e.Argv, e.Arguments, e.Reason, e.Remedy = nil, nil, printable.Line(e.Reason, 256), printable.Line(e.Remedy, 256)
		e.Path, e.Cwd, e.Target = printable.Line(e.Path, 512), printable.Line(e.Cwd, 256), printable.Line(e.Target, 256)
		data = e.encode(data[:0])
	}
	for most := maxDetail / 2; len(data) > maxLine && e.Detail != nil && most > 0; most /= 2 {
		e.boundDetail(most)
		data = e.encode(data[:0])
	}
	if len(data) > maxLine {
		return nil, fmt.Errorf("an event of %d bytes is too long", len(data))
	}
	return data, nil
}

// Decided is the rule that decided a refusal: the event's own, or what its kind is decided by. It
// is "" where nothing was decided.
func (e *Event) Decided() string {
	if e.Rule != "" {
		return e.Rule
	}
	return e.fill(e.Kind.Info().Rule)
}
