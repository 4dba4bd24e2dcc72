package receipt

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/runtime/spec/traits"
)

// Bounds of a receipt: a jail makes as many events as it likes.
const (
	maxEvents  = 400 // half of them the first, half the last
	maxGroups  = 500
	maxNames   = 500
	maxNoted   = 200
	maxListed  = 8192
	maxNumbers = 1 << 30
)

// Now is what is known of a jail beside its journal, when a receipt is made.
type Now struct {
	Time time.Time
	// Exists reports that the jail was not removed yet, and Alive that its first process runs.
	Exists, Alive bool
	// Used, Files, More and Looked are the final state (runtime/lifecycle) of a jail that exists.
	Used         journal.Used
	Files        []journal.File
	More, Looked bool
	// Mounted are the events of kind jail.mounted and jail.arrived that its delete would record
	// now.
	Mounted []journal.Event
}

// of makes the receipt of a jail from its events, which are in the order of time. It reads nothing
// of the host.
func of(events []journal.Event, now Now) *Receipt {
	m := &maker{
		r:      &Receipt{Schema: schema, State: Unfinished, Made: now.Time},
		groups: map[string]int{}, names: map[string]int{}, credentials: map[string]int{}, limits: map[string]int{},
		programs: map[string]bool{},
	}
	for _, ring := range rings.All() {
		m.r.Rings = append(m.r.Rings, Ring{Ring: ring, Name: ring.String()})
	}
	for i := range events {
		m.add(&events[i])
	}
	m.now(now)
	m.finish(events)
	return m.r
}

// now adds what is not in the journal yet.
func (m *maker) now(now Now) {
	r := m.r
	switch {
	case m.refusedWhole:
		r.State = Refused
	case now.Alive:
		r.State, r.Ended = Running, time.Time{}
	case now.Exists, !r.Ended.IsZero():
		r.State = Ended
	default:
		r.State = Unfinished
	}
	if now.Exists {
		m.used(now.Used)
		r.Touched.Known, r.Touched.Files, r.Touched.More = now.Looked, now.Files, now.More
		t := &r.Touched
		t.Mounted, t.Arrived, t.ArrivedTotal, t.ArrivedUnseen = nil, nil, 0, nil
		for i := range now.Mounted {
			now.Mounted[i].Clean()
			m.add(&now.Mounted[i])
		}
	}
}

// A maker goes through the events.
type maker struct {
	r                                  *Receipt
	groups, names, credentials, limits map[string]int // where in the receipt's lists
	programs                           map[string]bool
	refusedWhole                       bool
}

// add takes one event into account.
func (m *maker) add(e *journal.Event) {
	r := m.r
	switch d := e.Detail.(type) {
	case journal.Created:
		m.created(e, d)
	case journal.Used:
		m.used(d)
	case journal.Files:
		m.files(e, d)
	case journal.Mounted:
		m.mounted(e, d)
	case journal.Arrived:
		m.arrived(e, d)
	case journal.Teardown:
		m.torn(e, d)
	case journal.Inspected:
		m.inspected(e, d)
	case journal.Stale:
		m.stale(e, d)
	case journal.ViewApplied:
		if len(r.Touched.Applied) < maxNoted {
			r.Touched.Applied = append(r.Touched.Applied, Applied{e.When(), d.View, d.Directory, d.Applied, d.Sums})
		}
	}
	switch e.Kind {
	case journal.JailRefused:
		m.refusedWhole = true
		r.Ended = e.When()
	case journal.JailExit:
		m.exited(e)
	case journal.JailDelete, journal.JailReclaimed:
		m.deleted(e)
	case journal.ProtectionMissing:
		if ring := m.ring(e.Ring); ring != nil && len(ring.Start.Missing) < maxNoted {
			ring.Start.Missing = append(ring.Start.Missing, joined(e.Target, e.Reason))
		}
	case journal.ProtectionBroken, journal.ProtectionLost:
		if ring := m.ring(e.Ring); ring != nil && len(ring.End.Broken) < maxNoted {
			ring.End.Broken = append(ring.End.Broken, joined(cmp.Or(e.Target, e.Path), e.Reason))
		}
		if e.Kind == journal.ProtectionLost && len(r.Touched.Lost) < maxNoted {
			r.Touched.Lost = append(r.Touched.Lost, Lost{e.Path, e.Reason})
		}
	case journal.PrivilegeDenied:
		if ring := m.ring(e.Ring); ring != nil {
			ring.Start.Denied++
		}
	case journal.ConnectAllowed, journal.ConnectEnd, journal.CredentialUsed:
		m.connected(e)
	case journal.ApprovalAllowed, journal.ApprovalDenied:
		m.decided(e)
	case journal.ExecStart, journal.ProcessExec:
		m.ran(e)
	}
	if e.Dropped > 0 {
		r.Journal.Lost += int64(min(e.Dropped, maxNumbers))
	}
	switch {
	case e.Verdict == journal.VerdictLimit:
		m.limit(e)
	case e.Refused() || e.Kind == journal.Ring0Passed:
		m.refused(e)
	}
}

func joined(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

func (m *maker) ring(n rings.Ring) *Ring {
	for i := range m.r.Rings {
		if m.r.Rings[i].Ring == n {
			return &m.r.Rings[i]
		}
	}
	return nil
}

// created is the jail's identity.
func (m *maker) created(e *journal.Event, d journal.Created) {
	r := m.r
	r.Began = e.When()
	r.Identity = Identity{
		ID: e.Jail, Policy: e.Policy, Command: e.Argv, Dir: e.Cwd, Config: e.Hash,
		Name: d.Name, Image: d.Image, Engine: d.Engine, Root: d.Root, Bundle: d.Bundle, PolicyName: d.PolicyName, Filter: d.Seccomp,
		Delegate: d.Delegate, Capabilities: strings.Join(d.Capabilities, ", "),
		User: d.User, Version: d.Version,
	}
	if d.Delegate != "" {
		r.Identity.Boundary = traits.Of(d.Delegate).BoundaryName()
	}
	r.Touched.Writable = d.Writable
	for n := range r.Rings {
		look := &r.Rings[n].Start
		look.By, look.At = "hardening's report; the init step checked it before the program", r.Began
		look.Set = d.Set[r.Rings[n].Ring]
	}
}

// exited is how the first process ended.
func (m *maker) exited(e *journal.Event) {
	m.r.Ended = e.When()
	n, err := strconv.Atoi(e.Status)
	switch {
	case err == nil:
		m.r.Exit.Status = &n
	case e.Status == "":
		m.r.Exit.Unknown = "not known: the engine waited"
	default:
		m.r.Exit.Signal = e.Status
	}
}

// deleted is what the jail had used, and what is gone with it.
func (m *maker) deleted(e *journal.Event) {
	r := m.r
	if r.Ended.IsZero() {
		r.Ended = e.When()
	}
	if r.Teardown.By = "delete"; e.Kind == journal.JailReclaimed {
		r.Teardown.By = "the clean-up after a crash"
	}
}

// torn is what was looked for after the removal.
func (m *maker) torn(e *journal.Event, d journal.Teardown) {
	t := &m.r.Teardown
	t.At, t.Gone, t.Remains = e.When(), d.Gone, d.Remains
	t.Done = len(t.Remains) == 0
}

// used is what was used, and how full the layer was.
func (m *maker) used(d journal.Used) {
	m.r.Used.Amounts = d.Amounts
	if l := d.Layer; l != nil {
		t := &m.r.Touched
		t.Known, t.Bytes, t.Inodes, t.More = true, l.Bytes, l.Inodes, t.More || l.More
	}
}

// files are those of the layer, some dozens an event.
func (m *maker) files(e *journal.Event, d journal.Files) {
	t := &m.r.Touched
	fit := d.Files[:min(len(d.Files), max(0, maxListed-len(t.Files)))]
	t.Files = append(t.Files, fit...)
	t.More = t.More || e.Cut > 0 || len(fit) < len(d.Files)
}

// inspected is what `agentjail inspect` found, whose broken protections follow.
func (m *maker) inspected(e *journal.Event, d journal.Inspected) {
	for i := range m.r.Rings {
		ring := &m.r.Rings[i]
		found := d.Rings[ring.Ring]
		ring.End = Look{By: "agentjail inspect", At: e.When(), Holds: found.Holds, Missing: found.Missing}
	}
}

// connected counts connections and credentials.
func (m *maker) connected(e *journal.Event) {
	u := &m.r.Used
	if e.Kind == journal.CredentialUsed {
		if at := place(m.credentials, e.Credential, len(u.Credentials), maxNames); at == len(u.Credentials) {
			u.Credentials = append(u.Credentials, Count{Name: e.Credential, Count: times(e)})
		} else if at >= 0 {
			u.Credentials[at].Count += times(e)
		}
		return
	}
	name := cmp.Or(e.Name, e.Address)
	at := place(m.names, name+"\x00"+strconv.Itoa(int(e.Port)), len(u.Names), maxNames)
	if at < 0 {
		return
	}
	if at == len(u.Names) {
		u.Names = append(u.Names, Name{Name: name, Port: int(e.Port)})
	}
	n := &u.Names[at]
	n.Rule = cmp.Or(n.Rule, e.Rule)
	if e.Kind == journal.ConnectAllowed {
		n.Count += times(e)
	}
	n.Sent, n.Got = n.Sent+max(e.Sent, 0), n.Got+max(e.Got, 0)
}

// decided is a decision on a name.
func (m *maker) decided(e *journal.Event) {
	u := &m.r.Used
	if len(u.Decisions) == maxNames {
		m.r.Journal.Lost++
		return
	}
	u.Decisions = append(u.Decisions, Decision{
		At: e.When(), Name: e.Name, Port: int(e.Port), Allowed: e.Kind == journal.ApprovalAllowed, Span: e.Value, By: e.Target,
	})
}

// place is where an entry is in a list: length for a new one, below 0 when the list is full.
func place(known map[string]int, key string, length, most int) int {
	at, ok := known[key]
	switch {
	case ok:
		return at
	case length >= most:
		return -1
	}
	known[key] = length
	return length
}

// times is how often an event happened.
func times(e *journal.Event) int { return int(min(max(e.Count, 1), maxNumbers)) }

// ran counts programs.
func (m *maker) ran(e *journal.Event) {
	m.r.Used.Execs += times(e)
	name := e.Program
	if name == "" && len(e.Argv) > 0 {
		name = e.Argv[0]
	}
	if name != "" && !m.programs[name] && len(m.programs) < maxNoted {
		m.programs[name] = true
		m.r.Used.Programs = append(m.r.Used.Programs, name)
	}
}

// limit counts limits that were hit.
func (m *maker) limit(e *journal.Event) {
	if e.Kind == journal.LimitOOM {
		m.r.Exit.Killed = true
	}
	at := place(m.limits, e.Kind.String(), len(m.r.Limits), maxNoted)
	if at < 0 {
		return
	}
	if at == len(m.r.Limits) {
		m.r.Limits = append(m.r.Limits, Limit{Name: e.Kind.String(), Value: cmp.Or(e.Limit, e.Value), Remedy: e.Remedy})
	}
	m.r.Limits[at].Count += int64(times(e))
}

// refused groups what was denied by its kind, rule and object.
func (m *maker) refused(e *journal.Event) {
	what := cmp.Or(e.What(), e.Kind.Info().Meaning)
	key := strings.Join([]string{e.Kind.String(), e.Rule, what}, "\x00")
	at := place(m.groups, key, len(m.r.Denied), maxGroups)
	if at < 0 {
		// A refusal that does not fit is counted under its kind.
		if at = place(m.groups, e.Kind.String(), len(m.r.Denied), 2*maxGroups); at < 0 {
			return
		}
		what = "others"
	}
	if at == len(m.r.Denied) {
		d := Denial{
			Kind: e.Kind.String(), What: what, Rule: cmp.Or(e.Rule, e.Decided()), Reason: e.Reason, Remedy: e.Remedy, First: e.When(),
			RingPassed: e.Kind == journal.Ring0Passed,
		}
		if ring := m.ring(e.Ring); ring != nil {
			d.Ring = ring.Name
		}
		m.r.Denied = append(m.r.Denied, d)
	}
	m.r.Denied[at].Count += times(e)
	m.r.Denied[at].Last = e.When()
}

// finish adds what follows from all events together.
func (m *maker) finish(events []journal.Event) {
	r := m.r
	elsewhere := []journal.Kind{journal.JailFiles, journal.JailMounted, journal.JailArrived, journal.SourceAbsent}
	var all []*journal.Event
	for i := range events {
		if !slices.Contains(elsewhere, events[i].Kind) {
			all = append(all, &events[i])
		}
	}
	if r.Omitted = max(0, len(all)-maxEvents); r.Omitted > 0 {
		all = slices.Delete(all, maxEvents/2, maxEvents/2+r.Omitted)
	}
	for _, e := range all {
		r.Events = append(r.Events, Event{At: e.When(), Kind: e.Kind.String(), Text: story(e), Denied: e.Refused() ||
			e.Verdict == journal.VerdictAlert})
	}
	if r.Began.IsZero() && len(r.Events) > 0 {
		r.Began = r.Events[0].At
	}
	until := r.until()
	if !r.Began.IsZero() && until.After(r.Began) {
		r.Seconds = until.Sub(r.Began).Seconds()
	}
	slices.SortStableFunc(r.Denied, func(a, b Denial) int {
		if a.RingPassed != b.RingPassed {
			return map[bool]int{true: -1, false: 1}[a.RingPassed]
		}
		return cmp.Compare(b.Count, a.Count)
	})
	for i := range r.Rings {
		if e := &r.Rings[i].End; e.By == "" && len(e.Broken) > 0 {
			e.By = "agentjail inspect"
		}
	}
}

// story is an event in words.
func story(e *journal.Event) string {
	text := e.What()
	if e.Count > 1 {
		text += " x" + strconv.FormatUint(e.Count, 10)
	}
	text += printable.Labelled("by", e.Rule, "status", e.Status, "because", e.Reason)
	return cmp.Or(strings.TrimSpace(text), e.Kind.Info().Meaning)
}
