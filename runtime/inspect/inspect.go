// Package inspect compares a running jail, as the kernel reports it, with the
// policy in the jail's record. It trusts neither the hardened spec nor the
// delegate, but reads /proc, the control groups and the jail's namespaces.
//
// # Hostile content
//
// Input that a jail can influence (names of processes, paths of mounts, contents of files) is
// hostile: it is read with bounds, never followed out of the jail, and escaped in the output.
//
// # Findings
//
// look.go reads the kernel. checks.go lists the protections in order, by ring; the function of each
// compares what was read with the policy's demands, and makes a Finding of it.
package inspect

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/version/form"
)

// Verdict reports whether a protection holds.
type Verdict string

// The verdicts. Missing means that this host lacks it and policy does not insist on. InGuest and
// Void are of delegates with a boundary of their own: InGuest is enforced by the guest's kernel and
// cannot be seen here; Void is enforced by none.
const (
	Holds   Verdict = "holds"
	Broken  Verdict = "BROKEN"
	Missing Verdict = "missing"
	InGuest Verdict = "guest"
	Void    Verdict = "void"
)

// Finding is one protection of the jail.
type Finding struct {
	Ring    rings.Ring `json:"ring"`
	Name    string     `json:"name"`
	Verdict Verdict    `json:"verdict"`
	Seen    string     `json:"seen"`           // what the kernel reports
	Want    string     `json:"want,omitempty"` // what should be, unless it holds
}

// Result is what was found out about a jail.
type Result struct {
	ID       string `json:"id"`
	Pid      int    `json:"pid"`
	Delegate string `json:"delegate"`
	// HeldBy reports where the delegate's protections are held.
	HeldBy    traits.Boundary `json:"heldBy"`
	Processes int             `json:"processes"`
	// Earlier reports that the jail's record has an earlier form than this release writes: the jail
	// may lack protections that this release has.
	Earlier bool `json:"earlier,omitempty"`
	// Hostname is the jail's; "" where it cannot be read.
	Hostname string `json:"hostname,omitempty"`
	// Holds reports that no finding is Broken.
	Holds    bool      `json:"holds"`
	Findings []Finding `json:"findings"`
	// Calls are the system calls that the inner filter lets pass; nil where the jail
	// has none on record.
	Calls *Calls `json:"calls,omitempty"`
	// Namespaces are inode numbers by kind, the jail's and the host's.
	Namespaces map[string]Namespace `json:"namespaces"`
	// Denied are the privileges that the bundle requested and did not get.
	Denied []report.Change `json:"denied,omitempty"`
	// Mounted is what the jail has of the host's, with its owners.
	Mounted []Mounted `json:"mounted,omitempty"`
	// Exposed is what the jail can still learn of the host, of Ways that are known.
	Exposed []Exposed `json:"exposed,omitempty"`
	Ways    int       `json:"ways"`
}

// ErrNotRunning means that there is no process to look at.
var ErrNotRunning = errors.New("jail is not running")

// errNotStarted means that the first process still waits for start: the network
// is sealed and the filter set only then.
var errNotStarted = errors.New("jail waits for start")

// A process that an exec is making has the delegate's own rights for a moment, until it belongs to
// the jail: a protection that seems broken is looked at again.
const (
	looks    = 4
	lookWait = 100 * time.Millisecond
)

// Jail inspects a running jail. ErrNotRunning is in the error's chain where
// there is nothing to look at any more.
func Jail(s state.Store, j *state.Jail) (*Result, error) {
	if err := running(s, j); err != nil {
		return nil, err
	}
	d := demandsOf(s, j)
	var r *Result
	for i := range looks {
		if i > 0 {
			time.Sleep(lookWait)
		}
		seen, err := look(j, d)
		if err != nil {
			if !j.InitAlive() {
				err = fmt.Errorf("%w: it ended while it was looked at", ErrNotRunning)
			}
			return nil, fmt.Errorf("%s: %w", j.ID, err)
		}
		if r = judge(d, seen); r.Holds {
			break
		}
	}
	return r, nil
}

// running reports why a jail cannot be looked at.
func running(s state.Store, j *state.Jail) error {
	switch {
	case j.Elsewhere():
		return fmt.Errorf("%s: %w", j.ID, state.ErrElsewhere)
	case j.InitPid == 0 && j.CreatorAlive():
		return fmt.Errorf("%s: %w: it is being made", j.ID, errNotStarted)
	case !j.InitAlive():
		return fmt.Errorf("%s: %w: its processes have ended, and with them every protection (its report is in %s)", j.ID, ErrNotRunning,
			filepath.Join(s.Dir(j.Key), "report.json"))
	case !j.Started:
		return fmt.Errorf("%s: %w: its network is sealed and its system call filter set only then", j.ID, errNotStarted)
	}
	return nil
}

// demands is what the jail is held against.
type demands struct {
	jail   *state.Jail
	store  state.Store
	dir    string // its directory of state
	report *report.Report
	spec   *specs.Spec // the hardened one, or nil
	host   hostfacts.Facts
	calls  *Calls
	// boundary is the delegate's, and sandbox its name.
	boundary traits.Boundary
	sandbox  string
}

func demandsOf(s state.Store, j *state.Jail) *demands {
	d := &demands{
		jail: j, store: s, dir: s.Dir(j.Key), host: hostfacts.Read(), boundary: traits.Of(j.Delegate).Boundary,
		sandbox: traits.Of(j.Delegate).Sandbox,
	}
	// Neither is needed to judge: without them the report is shorter.
	if d.report, _ = s.Report(&j.Brief); d.report == nil {
		d.report = new(report.Report)
	}
	if b, err := bundle.Load(filepath.Join(s.Dir(j.Key), "bundle")); err == nil {
		d.spec = b.Spec
	}
	d.calls = callsOf(filepath.Join(s.Dir(j.Key), state.FilterFile))
	return d
}

// missing reports whether the report names a field as one that the host lacks, and why.
func (d *demands) missing(field string) (why string, ok bool) {
	for _, c := range d.report.Of(report.Missing) {
		if c.Field == field {
			return c.Why, true
		}
	}
	return "", false
}

// judge runs all checks.
func judge(d *demands, s *seen) *Result {
	r := &Result{
		ID: d.jail.ID, Pid: s.pid, Delegate: d.jail.Delegate, HeldBy: d.boundary, Processes: len(s.processes) + s.more,
		Hostname: s.hostname, Earlier: d.jail.Form < form.Number,
		Holds: true, Calls: d.calls,
		Namespaces: s.namespaces, Denied: d.report.Of(report.Denied), Mounted: s.mounted(d.jail), Exposed: s.exposed, Ways: s.ways,
	}
	for _, c := range checks {
		if c.sandbox && d.sandbox == "" {
			continue
		}
		o := c.judge(d, s)
		f := Finding{Ring: c.ring, Name: c.name, Verdict: o.verdict, Seen: o.seen}
		if o.verdict != Holds {
			f.Want = o.want
		}
		r.Holds = r.Holds && o.verdict != Broken
		r.Findings = append(r.Findings, f)
	}
	return r
}

// judge runs the check, where what it looks at can be seen from the host.
func (c check) judge(d *demands, s *seen) outcome {
	switch place := d.boundary.Of(c.name); place {
	case traits.Host:
		return c.run(d, s)
	case traits.Guest:
		return outcome{InGuest, "held by the guest kernel, which cannot be seen from the host", ""}
	default:
		if instead := d.boundary.Instead[c.name]; instead != "" {
			return outcome{Void, "the delegate has no such protection: " + instead, "held by: " + traits.Host.String()}
		}
		return outcome{Void, "the delegate has no such protection", "held by: " + traits.Host.String()}
	}
}

// outcome is the result of one check.
type outcome struct {
	verdict    Verdict
	seen, want string
}

func holds(format string, args ...any) outcome {
	return outcome{verdict: Holds, seen: fmt.Sprintf(format, args...)}
}

func broken(want, format string, args ...any) outcome {
	return outcome{verdict: Broken, want: want, seen: fmt.Sprintf(format, args...)}
}

func lacking(want, format string, args ...any) outcome {
	return outcome{verdict: Missing, want: want, seen: fmt.Sprintf(format, args...)}
}

// brokenList is broken with the first of several offences.
func brokenList(want string, bad []string) outcome {
	const most = 4
	if len(bad) > most {
		bad = append(slices.Clone(bad[:most]), fmt.Sprintf("and %d more", len(bad)-most))
	}
	return broken(want, "%s", strings.Join(bad, "; "))
}

// holdsUnless is brokenList, or holds where there is no offence.
func holdsUnless(want string, bad []string, format string, args ...any) outcome {
	if len(bad) > 0 {
		return brokenList(want, bad)
	}
	return holds(format, args...)
}
