package lifecycle

import (
	"path/filepath"
	"strings"
	"time"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/lostpaths"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// watchLost reports protected paths that the jail loses, until it ends: for a
// process that is there as long.
func (w *Runtime) watchLost(j *state.Jail) {
	if err := lostpaths.Watch(w.Store, j); err != nil && j.InitAlive() {
		w.Log.Warnf("agentjail: %v", err)
	}
}

// watchStarted is watchLost of a jail whose record is to be read, by a process
// that serves others.
func (w *Runtime) watchStarted(key string) {
	j, err := w.Store.Load(key)
	if err != nil {
		return // gone again
	}
	w.complete(&j.Brief)
	w.watchLost(j)
}

// checkLost looks for lost protected paths where no process may have watched. A
// jail that is to be paused for them runs nothing further.
func (w *Runtime) checkLost(j *state.Jail) error {
	losses, err := lostpaths.Now(j)
	if err != nil || len(losses) == 0 {
		return nil //nolint:nilerr // it has ended: what is requested next reports it
	}
	fresh, err := lostpaths.Report(w.Store, j, losses)
	if err != nil {
		w.Log.Warnf("agentjail: %v", err)
	}
	for _, l := range fresh {
		w.Log.Warnf("agentjail: protected path %s", l)
	}
	if j.Policy.Binds.Lost == policy.LostPause {
		return refusal.New(refusal.Exec, "the jail has lost %d protected paths, %s is one, and policy has it paused", len(losses), losses[0].Path).
			About("binds.lost").WithRemedy("look at the path, delete the jail and make another")
	}
	return nil
}

// noteVanished reports placeholders that are gone from under the jail, when it is
// removed: where no process watched, nothing else shows that.
func (w *Runtime) noteVanished(j *state.Brief) {
	if j.Journal == "" {
		return
	}
	var fresh []lostpaths.Loss
	for _, at := range w.ledger().Vanished(j.Key) {
		for _, m := range j.Mounted {
			rel, ok := strings.CutPrefix(at, m.Source+"/")
			if p := filepath.Join(m.At, rel); ok && lostpaths.First(w.Store, j.Key, p) {
				fresh = append(fresh, lostpaths.Loss{Path: p, Why: "is gone"})
				break
			}
		}
	}
	if err := lostpaths.Note(j, fresh, false); err != nil {
		w.unwritten(err)
	}
}

// maxRepositories bounds those that are looked at when a jail is removed.
const maxRepositories = 64

// noteStale reports tracked protected files that git could not replace in the jail.
func (w *Runtime) noteStale(j *state.Brief) {
	if j.Journal == "" || j.BootID != state.BootID() {
		return
	}
	defer w.step("stale")()
	var events []journal.Event
	for _, m := range j.Mounted {
		list := w.ledger().WorkTrees(j.Key, m.Source)
		if len(list) == 0 || m.Unseen != "" {
			continue
		}
		root, err := openMounted(m)
		if err != nil {
			continue // it was moved: the look at it reports it
		}
		for _, r := range list[:min(len(list), maxRepositories)] {
			stale, err := r.Stale(root, time.Unix(0, j.MountedSince))
			if err != nil || len(stale.Files) == 0 && !stale.Committed {
				continue
			}
			e := journal.Event{Kind: journal.GitStale, Path: filepath.Join(m.At, r.Work)}
			e.Detail = journal.Stale{Files: stale.Files[:min(len(stale.Files), maxListed)], Total: len(stale.Files), Committed: stale.Committed}
			events = append(events, e)
		}
		root.Close()
	}
	w.note(j, events...)
}
