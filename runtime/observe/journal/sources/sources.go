// Package sources reads all that is known of a jail from outside, from every writer: its journal,
// and what is not in it. It is read on demand, and needs nothing that runs in the background.
package sources

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// A Reader reads what is known of several jails. It reads the kernel's log once.
type Reader struct {
	store state.Store
	log   func() ([]logLine, error)
}

// NewReader returns a reader of the jails with these records.
func NewReader(s state.Store) *Reader { return &Reader{s, sync.OnceValues(readLogs)} }

// Events returns what a new Reader knows of a jail.
func Events(s state.Store, j *journal.Jail) []journal.Event { return NewReader(s).Events(j) }

// Refused returns how many refusals these events report. It is the one count: of a row of ls, the
// line at a sandbox's end, and the sums of denied and of a receipt.
func Refused(events []journal.Event) (n uint64) {
	for _, e := range Once(events) {
		if e.Refused() {
			n += max(1, e.Count)
		}
	}
	return n
}

// Events returns everything that is known of a jail, from its journal and from all sources at hand,
// merged by time. A source that could not be read is an event too, of kind source.absent. It is the
// one way for all readers: denied, why, receipt, journal, watch, ls.
func (r *Reader) Events(j *journal.Jail) []journal.Event {
	var out []journal.Event
	absent := func(name string, err error) {
		out = append(out, journal.Event{Kind: journal.SourceAbsent, Target: name, Reason: err.Error()})
	}
	if j.Path == "" {
		absent(journal.SourceOwn, journal.ErrNone)
	} else {
		events, err := journal.Read(j.Path)
		if out = append(out, events...); err != nil {
			absent(journal.SourceOwn, err)
		}
	}
	// Each returns the events in their order, and bounds what it reads. An error is returned beside
	// the events, and does not keep the other sources from being read.
	for _, source := range []struct {
		name   string
		events func(state.Store, *journal.Jail) ([]journal.Event, error)
	}{
		{journal.SourceNetwork, networkLog},
		{journal.SourceCgroup, groupCounters},
		{journal.SourceLayer, layer},
		{journal.SourceKernel, r.kernelLog},
	} {
		events, err := source.events(r.store, j)
		for i := range events {
			events[i].Seq, events[i].Prev = 0, "" // they are in no chain
		}
		if out = append(out, events...); err != nil {
			absent(source.name, err)
		}
	}
	return merged(out, j)
}

// merged completes, cleans and sorts events. Those without a time come last.
func merged(in []journal.Event, j *journal.Jail) []journal.Event {
	listed := len(journal.Summarize(in).Allow) > 0
	out := in[:0]
	for _, e := range in {
		if e.Jail == "" {
			e.Jail, e.Key = j.ID, j.Key
		}
		if err := e.Complete(); err != nil {
			// A later release's kind, or a foreign line.
			e = journal.Event{Kind: journal.SourceAbsent, Time: e.Time, Jail: j.ID, Key: j.Key, Reason: fmt.Sprint(err)}
			_ = e.Complete()
		}
		if listed && e.Source == journal.SourceNetwork {
			e.Remedy = ofCall(&e)
		}
		e.Clean()
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b journal.Event) int {
		at, bt := a.When(), b.When()
		if at.IsZero() != bt.IsZero() {
			return bt.Compare(at)
		}
		return at.Compare(bt)
	})
	return out
}

// ofCall returns the remedy of a refusal by names that the call listed: policy's list did not hold.
func ofCall(e *journal.Event) string {
	entry, ok := strings.CutPrefix(strings.TrimPrefix(e.Remedy, "policy: "), "network.allow")
	if !ok {
		return e.Remedy
	}
	entry = strings.TrimSuffix(strings.TrimPrefix(entry, ` = ["`), `"]`)
	if entry == " in the policy" {
		entry = e.Name
	}
	return fmt.Sprintf("--allow %q", entry)
}
