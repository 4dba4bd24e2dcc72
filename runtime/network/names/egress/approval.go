package egress

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/network"
)

// Bounds of the names that wait for a decision (network.approval).
const (
	// approvalTime is how long a connection waits for a decision, and how long a name that was
	// looked up is kept for its connection.
	approvalTime = 30 * time.Second
	maxOpen      = 32 // names and ports at a time
	newBurst     = 1  // new ones at once
	newPerSecond = 1  // and then
	maxWaiters   = 16 // connections to one name and port
	maxDecided   = 256
	// onceTime is how long a decision for one connection waits for it.
	onceTime = 5 * time.Minute
	// expectTime is how long after its start a helper expects what attaches to each jail.
	expectTime = 5 * time.Second
)

// target is a name and a port that no rule has. Port 0 is a name that was looked up and not yet
// connected to.
type target struct {
	name string
	port uint16
}

// opened is a target that waits for a decision.
type opened struct {
	until   time.Time
	waiters int
	// decided is closed when made is set.
	decided chan struct{}
	made    *decision
}

// decision is a decision on a target.
type decision struct {
	network.Approval
	until   time.Time // zero: the jail's end
	rule    *netrules.Rule
	used    bool // by the connection that it was for once
	revoked bool
}

// approvals are the decisions on names that no rule has, and what waits for one. A nil approvals
// decides nothing.
//
// A name waits only while an attached process can decide. Otherwise it is refused at once, so that
// a run without a person does not hang. Nothing is resolved outside before the decision. Addresses,
// TLS and HTTP of an approved name are judged as those of a rule without options.
type approvals struct {
	search []string
	now    func() time.Time
	// after is time.After.
	after func(time.Duration) <-chan time.Time
	rate  *bucket

	mu      sync.Mutex
	open    map[target]*opened
	turns   int // connections that wait for their turn
	decided map[target]*decision
	// seen are names that were refused: a name that has one of them as its beginning was made by a
	// resolver with a search list.
	seen     map[string]bool
	watchers watchers
	// expectUntil is until when a process is expected to attach, since it attaches to each jail.
	expectUntil time.Time
}

func newApprovals(search []string) *approvals {
	return &approvals{
		search: search, now: time.Now, after: time.After, rate: newBucket(newBurst, newPerSecond),
		open: map[target]*opened{}, decided: map[target]*decision{}, seen: map[string]bool{},
	}
}

// Reasons for a refusal.
const (
	noRule      = "no rule allows it"
	undecidable = "no rule allows it, and nothing is attached that could decide (agentjail watch)"
	tooMany     = "too many names wait for a decision"
	tooFast     = "more than one new name a second"
	notYet      = "no rule allows it, and what attaches to each jail (agentjail watch) has not attached yet"
	notInTime   = "not decided in time"
	isDenied    = "denied by a decision"
)

// answers reports whether a name that the rules do not allow gets an address nevertheless: it was
// approved, or it can wait for a decision. Otherwise it returns the reason.
func (a *approvals) answers(name string, rules *netrules.Set) (ok bool, reason string) {
	if a == nil || rules.Named(name) {
		return false, noRule
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() {
		if !ok {
			a.refused(name)
		}
	}()
	denied := false
	for t, d := range a.decided {
		if t.name == name && a.holds(d) {
			if d.Allow {
				return true, ""
			}
			denied = true
		}
	}
	if denied {
		return false, isDenied
	}
	if a.isOpen(name) {
		return true, ""
	}
	if reason := a.unfit(name, rules); reason != "" {
		return false, reason
	}
	if _, reason := a.put(target{name, 0}); reason != "" {
		return false, reason
	}
	return true, ""
}

// refused remembers a refused name.
func (a *approvals) refused(name string) {
	if len(a.seen) >= maxReported {
		clear(a.seen)
	}
	a.seen[name] = true
}

// isOpen reports whether a name waits, on whatever port.
func (a *approvals) isOpen(name string) bool {
	a.sweep()
	for t := range a.open {
		if t.name == name {
			return true
		}
	}
	return false
}

// holds reports whether a decision is still in force.
func (a *approvals) holds(d *decision) bool {
	return !d.revoked && !d.used && (d.until.IsZero() || a.now().Before(d.until))
}

// sweep removes the targets whose time is over.
func (a *approvals) sweep() {
	now := a.now()
	maps.DeleteFunc(a.open, func(_ target, q *opened) bool { return !now.Before(q.until) })
}

// unfit returns the reason why a name never waits for a decision, or "": a search list or a host's
// own network made it.
func (a *approvals) unfit(name string, rules *netrules.Set) string {
	if reason := netrules.Local(name); reason != "" {
		return reason
	}
	for _, s := range a.search {
		if name == s || strings.HasSuffix(name, "."+s) {
			return fmt.Sprintf("a name of the host's search list (%s)", s)
		}
	}
	for at := strings.LastIndexByte(name, '.'); at > 0; at = strings.LastIndexByte(name[:at], '.') {
		begin := name[:at]
		if strings.Contains(begin, ".") && (a.seen[begin] || a.isOpen(begin) || rules.Allowed(begin)) {
			return fmt.Sprintf("a name of a search list, after %s", begin)
		}
	}
	return ""
}

// put adds a target to the waiting ones. It returns the reason if the target may not wait.
func (a *approvals) put(t target) (*opened, string) {
	a.sweep()
	looked := target{t.name, 0}
	_, isLooked := a.open[looked]
	attached := a.watchers.attached()
	switch {
	case !attached && !a.now().Before(a.expectUntil):
		return nil, undecidable
	case !attached && t.port != 0:
		return nil, notYet
	case isLooked: // its place is taken, and its token was
		delete(a.open, looked)
	case len(a.open) >= maxOpen:
		return nil, tooMany
	case !a.rate.try():
		return nil, tooFast
	}
	q := &opened{until: a.now().Add(approvalTime), decided: make(chan struct{})}
	a.open[t] = q
	if t.port != 0 {
		a.watchers.send(a.waiting(t, q))
	}
	return q, ""
}

// await waits for the decision on a target that no rule has. It returns the reason of a refusal.
func (a *approvals) await(t target, rules *netrules.Set) (*decision, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q, reason := a.putInTurn(t, rules)
	switch {
	case reason != "":
		return nil, reason
	case q.waiters == maxWaiters:
		return nil, fmt.Sprintf("%d connections to it wait already", maxWaiters)
	case q.made == nil:
		a.wait(q)
	}
	if q.made != nil {
		return a.take(q.made)
	}
	if a.open[t] == q {
		delete(a.open, t)
	}
	return nil, notInTime
}

// wait waits for a decision without the lock, until the time of what waits is over.
func (a *approvals) wait(q *opened) {
	q.waiters++
	left := q.until.Sub(a.now())
	a.mu.Unlock()
	select {
	case <-q.decided:
	case <-a.after(left):
	}
	a.mu.Lock()
	q.waiters--
}

// putInTurn returns what waits for a decision on a target. If that is new, it waits for its turn,
// which comes once a second.
func (a *approvals) putInTurn(t target, rules *netrules.Set) (*opened, string) {
	for range int(approvalTime / time.Second) {
		a.sweep()
		if d := a.decided[t]; d != nil && a.holds(d) { // since it waits for its turn
			return &opened{decided: make(chan struct{}), made: d}, ""
		}
		if q := a.open[t]; q != nil {
			return q, ""
		}
		if reason := a.unfit(t.name, rules); reason != "" {
			return nil, reason
		}
		if q, reason := a.put(t); reason != tooFast && reason != notYet {
			return q, reason
		}
		if a.turns == maxOpen {
			return nil, tooMany
		}
		a.turns++
		a.mu.Unlock()
		<-a.after(time.Second)
		a.mu.Lock()
		a.turns--
	}
	return nil, tooFast
}

// take uses a decision for a connection.
func (a *approvals) take(d *decision) (*decision, string) {
	if !a.holds(d) {
		return nil, "the decision was for one connection"
	}
	d.used = d.Once
	if !d.Allow {
		return nil, isDenied
	}
	return d, ""
}

// decide puts a decision in force.
func (a *approvals) decide(v network.Approval, rules *netrules.Set) error {
	if a == nil {
		return errors.New("the jail's policy has no network.approval = \"prompt\"")
	}
	t, err := decidable(v, rules)
	if err != nil {
		return err
	}
	d := &decision{Approval: v}
	d.rule, err = approved(t)
	if err != nil {
		return err
	}
	switch {
	case v.Once:
		d.until = a.now().Add(onceTime)
	case v.For > 0:
		d.until = a.now().Add(v.For)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep()
	maps.DeleteFunc(a.decided, func(_ target, d *decision) bool { return !a.holds(d) })
	switch former := a.decided[t]; {
	case former != nil && v.Allow && former.Allow: // its connections go on, as long as the new one holds
		*former = *d
		d = former
	case former != nil:
		former.revoked = true
	case len(a.decided) >= maxDecided:
		return fmt.Errorf("%d decisions are in force for the jail (remedy: network.allow in the policy)", maxDecided)
	}
	a.decided[t] = d
	if q := a.open[t]; q != nil {
		q.made = d
		close(q.decided)
		delete(a.open, t)
		if v.Once && q.waiters == 0 {
			d.used = !v.Allow
		}
	}
	delete(a.open, target{t.name, 0})
	return nil
}

// withdraw takes back a decision.
func (a *approvals) withdraw(v network.Approval) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := target{v.Name, v.Port}
	if d := a.decided[t]; d != nil {
		d.revoked = true
		delete(a.decided, t)
	}
}

// decidable returns the target of a decision, or an error if it must not be decided on.
func decidable(v network.Approval, rules *netrules.Set) (target, error) {
	name, err := netrules.Canonical(v.Name)
	switch {
	case err != nil:
		return target{}, err
	case name != v.Name || v.Port == 0 || v.Once && v.For != 0 || v.For < 0 || v.For > network.MaxFor:
		return target{}, errors.New("the decision is malformed")
	case rules.Named(name):
		return target{}, fmt.Errorf("the policy has rules for %s, which decide (remedy: network.allow and network.deny in the policy, then agentjail network reload)", name)
	}
	return target{name, v.Port}, nil
}

// approved returns the rule of an approved target: it has no option.
func approved(t target) (*netrules.Rule, error) {
	r, err := netrules.ParseEntry(fmt.Sprintf("%s:%d", t.name, t.port), false)
	r.Text = "approved: " + r.Text
	return &r, err
}

// over returns why a decision does not let its connection go on, or "".
func (a *approvals) over(d *decision) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case d.revoked:
		return "its approval was withdrawn"
	case !d.Once && !d.until.IsZero() && !a.now().Before(d.until):
		return "the time of its approval is over"
	}
	return ""
}

// list returns what waits, in the order of its time.
func (a *approvals) list() (out []network.Waiting) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.listed()
}

func (a *approvals) listed() (out []network.Waiting) {
	a.sweep()
	for t, q := range a.open {
		if t.port != 0 {
			out = append(out, a.waiting(t, q))
		}
	}
	slices.SortFunc(out, func(x, y network.Waiting) int {
		return cmp.Or(x.Left-y.Left, strings.Compare(x.Name, y.Name))
	})
	return out
}

func (a *approvals) waiting(t target, q *opened) network.Waiting {
	return network.Waiting{Name: t.name, Port: t.port, Left: int((q.until.Sub(a.now()) + time.Second - 1) / time.Second)}
}
