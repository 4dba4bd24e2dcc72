package sources

import (
	"errors"
	"fmt"
	"os"

	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// maxNetwork bounds how many events of a network's log are read.
const maxNetwork = 200_000

// networkLog reads the log of the helper of a network by name, of a jail that was deleted from
// where it is kept.
func networkLog(s state.Store, j *journal.Jail) ([]journal.Event, error) {
	dir := s.Dir(j.Key)
	if j.Brief == nil {
		dir = journal.KeptDir(j.Path)
	}
	r, err := decisions.NewReader(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []journal.Event
	for len(out) < maxNetwork {
		events, err := r.Next()
		if err != nil || len(events) == 0 {
			return out, err
		}
		for _, e := range events {
			out = append(out, fromNetwork(e)...)
		}
	}
	return out, fmt.Errorf("the log has more than %d events", maxNetwork)
}

// networkKinds are the kinds of what a helper decides, allowed and refused.
var networkKinds = map[string][2]journal.Kind{
	decisions.Name:    {journal.NameAllowed, journal.NameRefused},
	decisions.Connect: {journal.ConnectAllowed, journal.ConnectRefused},
	decisions.Publish: {journal.PublishAllowed, journal.PublishRefused},
	decisions.End:     {journal.ConnectEnd, journal.ConnectEnd},
}

// fromNetwork is an event of the helper's as the journal has it.
func fromNetwork(e decisions.Event) []journal.Event {
	var out []journal.Event
	if e.Dropped > 0 {
		out = append(out, journal.Event{
			Kind: journal.JournalLost, Time: e.Time, Source: journal.SourceNetwork,
			Dropped: uint64(e.Dropped),
		})
	}
	kinds, known := networkKinds[e.What]
	if !known {
		return append(out, journal.Event{Kind: journal.JournalLost, Time: e.Time, Source: journal.SourceNetwork, Reason: e.Reason})
	}
	kind := kinds[1]
	if e.Verdict == "allowed" {
		kind = kinds[0]
	}
	if e.Credential != "" && kind == journal.ConnectRefused {
		kind = journal.CredentialRefused
	}
	event := journal.Event{
		Kind: kind, Time: e.Time, Source: journal.SourceNetwork, Name: e.Name, Port: e.Port, Address: e.Address, Rule: e.Rule,
		Reason: e.Reason,
		Remedy: e.Remedy, Credential: e.Credential, Sent: e.Sent, Got: e.Got, Millis: e.Millis,
	}
	if out = append(out, event); e.What == decisions.End && e.Credential != "" {
		event.Kind, event.Sent, event.Got, event.Millis, event.Reason = journal.CredentialUsed, 0, 0, 0, ""
		out = append(out, event)
	}
	return out
}
