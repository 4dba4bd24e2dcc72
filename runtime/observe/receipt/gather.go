package receipt

import (
	"fmt"
	"time"

	"agentjail.dev/runtime/observe/enginerecord"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/journal/sources"
)

// Make makes the receipt of a jail from its journal and all other sources, and, for a jail that
// exists, from now, of which it sets Time, Exists and Alive. With verify the journal's chain is
// followed.
func Make(p journal.Place, j *journal.Jail, now Now, verify bool) *Receipt {
	now.Time, now.Exists = time.Now(), j.Brief != nil
	now.Alive = now.Exists && j.Brief.InitAlive()
	events := sources.Once(sources.Events(p.Store, j))
	r := of(events, now)
	if r.Identity.ID == "" {
		r.Identity.ID = j.ID
	}
	r.Identity.Run = j.Key + "@" + journal.At(j.Born)
	r.Exit.Engine = engineStatus(events, r)
	r.provenance(j, verify)
	return r
}

// engineStatus returns the exit status that Docker's record has of the jail; nil where the journal
// has one, or Docker has none. Where Docker starts a runtime by its path, the shim of containerd
// waits for the first process, and Docker writes the status down after the delete.
func engineStatus(events []journal.Event, r *Receipt) *int {
	if r.Exit.Unknown == "" || len(events) == 0 {
		return nil
	}
	made, _ := events[0].Detail.(journal.Created)
	return enginerecord.ReadDocker(made.Record).Status(r.Identity.ID, r.Began, r.Ended)
}

// provenance records of which journal the receipt is.
func (r *Receipt) provenance(j *journal.Jail, verify bool) {
	if j.Path == "" {
		r.Journal.Problem = journal.ErrNone.Error()
		return
	}
	found, err := journal.Verify(j.Path)
	if err != nil {
		r.Journal.Problem = err.Error()
		if verify {
			r.Journal.Verified = new(bool)
		}
		return
	}
	r.Journal.Events, r.Journal.Last = found.Events, found.Head
	if !verify {
		return
	}
	whole := found.Whole()
	r.Journal.Verified = &whole
	switch {
	case !whole:
		r.Journal.Problem = fmt.Sprintf("%d places at which the chain is broken: %s", len(found.Problems), found.Problems[0])
	case len(found.Torn) > 0:
		r.Journal.Problem = fmt.Sprintf("%d lines were cut short by a crash", len(found.Torn))
	case len(found.Gaps) > 0:
		r.Journal.Problem = "rotation dropped events " + found.Gaps[0]
	}
}
