// Package sources reads all that is known of a jail from outside, from every writer: its journal,
// and what is not in it. It is read on demand, and needs nothing that runs in the background.
package sources

import (
	"fmt"
	"slices"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// all are the sources of events that are not in a jail's journal, by the journal's names of them.
// Each returns the events in their order, and bounds what it reads. An error is returned beside the
// events, and does not keep the other sources from being read.
var all = []struct {
	name   string
	events func(state.Store, *journal.Jail) ([]journal.Event, error)
}{
	{journal.SourceNetwork, networkLog},
	{journal.SourceCgroup, groupCounters},
	{journal.SourceLayer, layer},
	{journal.SourceKernel, kernelLog},
}

// Events returns everything that is known of a jail, from its journal and from all sources at hand,
// merged by time. A source that could not be read is an event too, of kind source.absent. It is the
// one way for all readers: denied, why, receipt, journal, watch.
func Events(s state.Store, j *journal.Jail) []journal.Event {
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
	for _, source := range all {
		events, err := source.events(s, j)
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
