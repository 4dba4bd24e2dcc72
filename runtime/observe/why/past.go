package why

import (
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/observe/journal"
)

// kindsOf are the kinds of refusals that a message's cause leaves in a jail's journal, by the
// cause's sign.
var kindsOf = map[string][]journal.Kind{
	"memory": {journal.LimitOOM}, "pids": {journal.LimitPids}, "layer": {journal.LimitLayer}, "layer files": {journal.LimitInodes},
	"name": {journal.NameRefused, journal.ConnectRefused}, "kill": {journal.SyscallKilled},
}

// limitSigns are the signs of limits that were met.
var limitSigns = []string{"memory", "pids", "layer", "layer files"}

// PastSigns are what a jail's journal shows of causes, also of a jail that has ended.
func PastSigns(events []journal.Event) []Sign {
	var out []Sign
	for _, sign := range limitSigns {
		n, limit := uint64(0), ""
		for i := range events {
			if e := &events[i]; slices.Contains(kindsOf[sign], e.Kind) {
				n, limit = n+max(1, e.Count), e.Limit
			}
		}
		if n > 0 {
			out = append(out, Sign{Sign: sign, Shown: true, Text: fmt.Sprintf("the journal has the limit %s, met %d times", limit, n)})
		}
	}
	return out
}

// fits reports whether a refusal of a jail's is what a question is about.
func (q *Question) fits(e *journal.Event, kinds []journal.Kind) bool {
	called := func(c *Call) bool { return c.Name != "" && e.Syscall == c.Name }
	switch {
	case q.Kind == OfCall:
		return called(&q.Call)
	case q.Kind == OfName:
		return q.at(e)
	case q.Kind == OfPath:
		return pathname.Within(e.Path, q.Path)
	case q.Addr.IsValid():
		return q.at(e)
	case called(&q.Inner), q.Name != "" && e.Name == q.Name, q.Path != "" && pathname.Within(e.Path, q.Path):
		return true
	}
	return slices.Contains(kinds, e.Kind)
}

// at reports whether an event is of the question's name and port. Of an address that stands for an
// unknown name, the port alone is compared.
func (q *Question) at(e *journal.Event) bool {
	samePort := e.Port == 0 || q.Port == 0 || e.Port == q.Port
	if q.unresolved() {
		return e.Kind == journal.ConnectRefused && samePort
	}
	return e.Name == q.Name && samePort
}

// Past adds to an answer what a jail was last refused that fits the question, and when. events are
// in the order of time.
func (a *Answer) Past(q Question, events []journal.Event) {
	var kinds []journal.Kind
	if q.Kind == OfError {
		if m, _ := find(q.Text); m != nil {
			for _, c := range m.Causes {
				kinds = append(kinds, kindsOf[c.Sign]...)
			}
		}
	}
	if a.name != "" {
		q.Name = a.name
	}
	n := uint64(0)
	var last *journal.Event
	for i := range events {
		if e := &events[i]; e.Refused() && q.fits(e, kinds) {
			n, last = n+max(1, e.Count), e
		}
	}
	if last == nil {
		return
	}
	a.Seen = append(a.Seen, fmt.Sprintf("refused %d times so far, last at %s: %s%s", n, last.Time, last.Kind,
		printable.Labelled("", last.What(), "by", last.Decided(), "because", last.Reason, "program", last.Program)))
	if a.Verdict == Unknown || a.Kind == OfName && a.Verdict == Passes && last.Kind == journal.ConnectRefused && last.Rule != "" {
		a.passedNot(last)
	}
}

// passedNot makes the last refusal the answer to a question that an entry alone would let pass.
func (a *Answer) passedNot(last *journal.Event) {
	a.Verdict = Refused
	if a.Ring == nil {
		a.Ring = &last.Ring
	}
	if a.Kind != OfName {
		return
	}
	a.By = []string{"network by name"}
	a.Why = last.Reason
	if entry, ok := strings.CutPrefix(last.Remedy, "network.allow = "); ok {
		a.Remedies = append(a.Remedies, Remedy{Write: "network.allow = " + entry, Where: ThePolicy})
	} else if strings.HasPrefix(last.Remedy, "--allow ") {
		a.Remedies = append(a.Remedies, Remedy{Write: last.Remedy, Where: TheCall})
	}
}
